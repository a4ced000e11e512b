"""Reads, verifies and atomically writes bundles: directories of a manifest and its files.

Verification compares the size and SHA-256 of every file with the manifest. It does not look into
the graphs, and nothing is unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from uuid import uuid4

from models.bundle.manifest import GRAPHS, File, InvalidBundle, Manifest, Precision
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import Tokenizer, Tokenizers

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.model"
"""Shared by both sides. A bundle with a vocabulary per side has the next two files instead."""
SOURCE_TOKENIZER = "source.model"
TARGET_TOKENIZER = "target.model"
_OF_ONE_SIDE = frozenset({SOURCE_TOKENIZER, TARGET_TOKENIZER})
MODEL_CARD = "README.md"
SHORTLIST = "shortlist.npz"
"""Optional, as is the graph ``resident``."""

_LARGEST_MANIFEST = 1 << 26
"""Bytes. The manifest of a thousand directions has fewer than a million."""

_NO_PLAIN_FILE = (errno.ELOOP, errno.ENXIO)
"""Errors of opening a link or a socket."""

# An ONNX Runtime session may load these, also as external data, without consulting the manifest.
_LOADABLE = (".onnx", ".bin")


def graph_file(graph: str, precision: Precision) -> str:
    """The file name of a graph, e.g. ``step.int8.onnx``."""
    return f"{graph}.{precision}.onnx"


def weights_file(precision: Precision) -> str:
    """The name of the weights file that the graphs of one precision share.

    Graphs in fp16 may share the file of int8 instead.
    """
    return f"weights.{precision}.bin"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle, obtained by ``open`` or ``write``.

    A directory whose name starts with a dot is an unfinished or a retired bundle.
    """

    path: Path
    manifest: Manifest
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Files that ``read`` finds here instead of on disk."""

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Read and verify a bundle without loading it; raises ``InvalidBundle``."""
        bundle = cls(path, read_manifest(path))
        bundle._verify()
        return bundle

    @classmethod
    def write(cls, path: Path, manifest: Manifest, files: Mapping[str, Path]) -> Bundle:
        """Publish copies of ``files`` as a bundle; the keys are the file names in the bundle.

        A rename publishes the bundle atomically and replaces an older bundle at ``path``. A failed
        write removes its files and keeps the older bundle. The manifest's list of files is computed
        here.
        """
        if path.exists() and not (path / MANIFEST).is_file():
            raise InvalidBundle(f"{path} exists and is not a bundle; it is not replaced")
        described = {name: _describe(origin) for name, origin in files.items()}
        # Serialised and parsed again, because ``model_copy`` does not validate the file names.
        complete = Manifest.from_json(manifest.model_copy(update={"files": described}).to_json())
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = path.parent / f".{path.name}.{uuid4().hex}"
        try:
            # tempfile.mkdtemp would create a directory that only its owner can read.
            staging.mkdir()
            for name, origin in files.items():
                shutil.copyfile(origin, staging / name)
                _flush(staging / name)
            (staging / MANIFEST).write_text(complete.to_json(), encoding="utf-8")
            _flush(staging / MANIFEST)
            _flush(staging)
            cls(staging, complete)._verify()
            _publish(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return cls(path, complete)

    def read(self, name: str) -> bytes:
        """The content of a file, verified after reading; raises ``InvalidBundle``."""
        if name in self.contents:
            return self.contents[name]
        path, expected = self.path / name, self.manifest.files[name]
        with _opened(path, expected) as file:
            # One byte more shows that the file has grown.
            content = file.read(expected.size + 1)
        if hashlib.sha256(content).hexdigest() != expected.sha256:
            raise InvalidBundle(f"{path} is not the file the manifest was written for")
        return content

    def in_memory(self, precision: Precision) -> Bundle:
        """This bundle with the graphs and weights of a precision in memory, each read once."""
        names = [graph_file(graph, precision) for graph in GRAPHS] + [self.weights(precision)]
        if self.has_resident(precision):
            names.append(graph_file("resident", precision))
        return replace(self, contents={name: self.read(name) for name in names})

    def has_resident(self, precision: Precision) -> bool:
        """Whether the bundle has the optional graph whose beam searches run on the device."""
        return graph_file("resident", precision) in self.manifest.files

    def weights(self, precision: Precision) -> str:
        """The name of the weights file that the graphs of a precision read."""
        own = weights_file(precision)
        return own if own in self.manifest.files else weights_file("int8")

    def graph(self, graph: str, precision: Precision) -> Path:
        """The file of one of ``GRAPHS``; raises ``InvalidBundle`` for a missing precision."""
        if precision not in self.manifest.precisions:
            offered = ", ".join(self.manifest.precisions)
            raise InvalidBundle(f"{self.path} offers {offered}; not {precision}")
        return self.path / graph_file(graph, precision)

    def tokenizers(self) -> Tokenizers:
        """Load both sides' tokenizers; raises ``InvalidBundle`` if they contradict the manifest."""
        shape = self.manifest.dimensions
        if TOKENIZER in self.manifest.files:
            shared = self._tokenizer(TOKENIZER, shape.source_vocabulary, shape.vocabulary_size)
            return Tokenizers(shared, shared)
        return Tokenizers(
            self._tokenizer(SOURCE_TOKENIZER, shape.source_vocabulary),
            self._tokenizer(TARGET_TOKENIZER, shape.vocabulary_size),
        )

    def _tokenizer(self, name: str, *sizes: int) -> Tokenizer:
        tokenizer = Tokenizer.from_bytes(self.read(name), self.path / name)
        if tokenizer.special_ids != self.manifest.special_ids:
            raise InvalidBundle(
                f"{self.path}: {name} has {tokenizer.special_ids!r}, "
                f"the manifest {self.manifest.special_ids!r}"
            )
        for size in sizes:
            if tokenizer.vocabulary_size != size:
                raise InvalidBundle(
                    f"{self.path}: {name} has {tokenizer.vocabulary_size} pieces, "
                    f"the network {size}"
                )
        return tokenizer

    def shortlist(self) -> Shortlist | None:
        """Load the vocabulary shortlist, or ``None`` if the bundle has none.

        Raises ``InvalidBundle`` if it does not fit the vocabulary.
        """
        if SHORTLIST not in self.manifest.files:
            return None
        shortlist = Shortlist.from_bytes(self.read(SHORTLIST), self.path / SHORTLIST)
        shape = self.manifest.dimensions
        if shortlist.source_vocabulary_size != shape.source_vocabulary:
            raise InvalidBundle(
                f"{self.path}: the shortlist is of {shortlist.source_vocabulary_size} source ids, "
                f"the network has {shape.source_vocabulary}"
            )
        if shortlist.target_bound > shape.vocabulary_size:
            raise InvalidBundle(
                f"{self.path}: the shortlist has the target id {shortlist.target_bound - 1}, "
                f"the network has {shape.vocabulary_size}"
            )
        if self.manifest.special_ids.eos not in shortlist.always:
            raise InvalidBundle(f"{self.path}: the shortlist would let no translation end")
        return shortlist

    def _verify(self) -> None:
        listed = self.manifest.files
        if TOKENIZER in listed and (of_one_side := _OF_ONE_SIDE & listed.keys()):
            raise InvalidBundle(
                f"the manifest of {self.path} lists {TOKENIZER}, which is of both sides, and "
                f"{min(of_one_side)}, which is of one"
            )
        for name in _required(self.manifest):
            if name not in listed:
                raise InvalidBundle(f"the manifest of {self.path} does not list {name}")
        for found in sorted(self.path.iterdir()):
            if found.suffix in _LOADABLE and found.name not in listed:
                raise InvalidBundle(f"{found} is not listed in the manifest")
        for name, expected in listed.items():
            _compare(self.path / name, expected)


def _required(manifest: Manifest) -> list[str]:
    of_one_side = _OF_ONE_SIDE & manifest.files.keys()
    names = [*(sorted(_OF_ONE_SIDE) if of_one_side else [TOKENIZER]), MODEL_CARD]
    for precision in manifest.precisions:
        names += [graph_file(graph, precision) for graph in GRAPHS]
        if not (precision == "fp16" and "int8" in manifest.precisions):
            names.append(weights_file(precision))
    return names


def read_manifest(path: Path) -> Manifest:
    """The manifest in a bundle's directory; raises ``InvalidBundle``."""
    try:
        # Not blocking: opening a FIFO would wait for a writer.
        descriptor = os.open(path / MANIFEST, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidBundle(f"{path / MANIFEST} is not a plain file")
            content = file.read(_LARGEST_MANIFEST + 1)
        if len(content) > _LARGEST_MANIFEST:
            raise InvalidBundle(f"{path / MANIFEST} has more than {_LARGEST_MANIFEST} bytes")
        return Manifest.from_json(content.decode())
    except FileNotFoundError as error:
        raise InvalidBundle(f"{path} has no {MANIFEST}") from error
    except OSError as error:
        raise InvalidBundle(f"{path / MANIFEST} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidBundle(f"{path / MANIFEST} is not UTF-8: {error}") from error
    except InvalidBundle as error:
        raise InvalidBundle(f"{path / MANIFEST}: {error}") from error


@contextmanager
def _opened(path: Path, expected: File) -> Iterator[BufferedReader]:
    """A listed file, open for reading; raises ``InvalidBundle`` if it is not as the manifest says.

    Links are refused. What is no plain file is opened without waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidBundle(f"{path} is not a plain file")
            if status.st_size != expected.size:
                raise InvalidBundle(
                    f"{path} has {status.st_size} bytes; the manifest says {expected.size}"
                )
            yield file
    except FileNotFoundError as error:
        raise InvalidBundle(f"{path.parent} lacks {path.name}") from error
    except OSError as error:
        if error.errno in _NO_PLAIN_FILE:
            raise InvalidBundle(f"{path} is not a plain file") from error
        raise InvalidBundle(f"{path} cannot be read: {error.strerror}") from error


def _compare(path: Path, expected: File) -> None:
    with _opened(path, expected) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected.sha256:
        raise InvalidBundle(f"{path} is not the file the manifest was written for")


def _describe(path: Path) -> File:
    return File(size=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Flush to disk, so that a power cut cannot publish empty files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(staging: Path, path: Path) -> None:
    if not path.exists():
        staging.rename(path)
        _flush(path.parent)
        return
    retired = staging.with_name(f"{staging.name}.retired")
    path.rename(retired)
    try:
        staging.rename(path)
    except BaseException:
        retired.rename(path)
        raise
    _flush(path.parent)
    # Deletion may fail while another process has a file open; the directory stays hidden.
    shutil.rmtree(retired, ignore_errors=True)
