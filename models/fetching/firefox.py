"""Models of Firefox Translations, from Mozilla's index (Remote Settings) and its attachments.

The index is JSON with a list ``data`` of records, one for each file of a model. A file is packed
with Zstandard; the record has the SHA-256 of the unpacked file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from models.fetching.download import download, read_whole
from models.fetching.errors import FetchFailed
from models.zstandard import WINDOW, zstd

SUPPORTED_MAJOR = (1, 2)
"""Major versions of models that can be imported."""
LARGEST_INDEX = 16 << 20
LARGEST_FILE = 1 << 30
"""Bytes of a file, packed or unpacked."""
LICENCE = "mpl-2.0"
"""Licence of all models in the index."""
_KINDS = ("model", "vocab", "srcvocab", "trgvocab", "lex")
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:a(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    name: str
    kind: str
    location: str
    """Path under the address of attachments."""
    sha256: str
    """Hash of the unpacked file."""


@dataclass(frozen=True, slots=True)
class FirefoxModel:
    source: str
    target: str
    version: str
    architecture: str
    files: tuple[File, ...]

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Sorts versions; a trial such as 1.0a2 is before its release 1.0."""
        found = _VERSION.fullmatch(self.version)
        assert found is not None
        major, minor, trial = found.groups()
        return int(major), int(minor), trial is None, int(trial or 0)


def read_records(address: str) -> tuple[FirefoxModel, ...]:
    """All complete models of the index, of any version; raises ``FetchFailed``."""
    try:
        records = json.loads(read_whole(address, LARGEST_INDEX))["data"]
        files: dict[tuple[str, str, str, str], dict[str, File]] = {}
        for record in records:
            file = File(
                str(record["name"]),
                str(record["fileType"]),
                str(record["attachment"]["location"]).lstrip("/"),
                str(record["decompressedHash"]).lower(),
            )
            model = tuple(
                str(record[name])
                for name in ("sourceLanguage", "targetLanguage", "version", "architecture")
            )
            if file.kind in _KINDS and _NAME.fullmatch(file.name) and _VERSION.fullmatch(model[2]):
                source, target, version, architecture = model
                key = source, target, version, architecture
                files.setdefault(key, {})[file.kind] = file
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchFailed(f"the index of Firefox's models cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FetchFailed(f"{address} is not an index of Firefox's models: {error!r}") from error
    return tuple(
        FirefoxModel(*key, tuple(own.values())) for key, own in files.items() if _complete(own)
    )


def find(
    models: Sequence[FirefoxModel], pair: str, architectures: Sequence[str] = ()
) -> FirefoxModel:
    """The newest model of a pair, of the first of ``architectures`` that has it.

    Architectures that are not named follow in the order of the alphabet. Raises ``FetchFailed``.
    """
    own = [model for model in models if model.pair == pair]
    if not own:
        raise FetchFailed(f"Firefox has no model {pair}")
    supported = [model for model in own if model.order[0] in SUPPORTED_MAJOR]
    if not supported:
        versions = ", ".join(sorted({model.version for model in own}))
        majors = " and ".join(map(str, SUPPORTED_MAJOR))
        raise FetchFailed(
            f"Firefox's model {pair} has the version {versions}; major versions {majors} can be "
            "imported"
        )
    ranked = [*architectures, *sorted({model.architecture for model in supported})]
    first = min((model.architecture for model in supported), key=ranked.index)
    return max((m for m in supported if m.architecture == first), key=lambda m: m.order)


def fetch_model(model: FirefoxModel, attachments: str, downloads: Path) -> Path:
    """The unpacked files of a model in a directory of ``downloads``, with their hashes verified.

    ``attachments`` is the address of packed files. Continues an interrupted download. Raises
    ``FetchFailed``.
    """
    name = f"firefox-{model.pair}-{model.version}-{model.architecture}"
    directory = downloads / re.sub(r"[^A-Za-z0-9_-]", "_", name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in model.files:
            _fetch(file, f"{attachments.rstrip('/')}/{file.location}", directory)
        card = f"---\nlicense: {LICENCE}\n---\n# Firefox Translations {model.pair}\n"
        (directory / "README.md").write_text(card, encoding="utf-8")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchFailed(
            f"Firefox's model {model.pair} cannot be fetched: {error or type(error).__name__}; the "
            "same command continues where this one stopped"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            reason = "no space is left on the disk; DRAGOMAN_BUNDLES names another place"
        raise FetchFailed(f"Firefox's model {model.pair} cannot be stored: {reason}") from error
    return directory


def _fetch(file: File, link: str, directory: Path) -> None:
    path = directory / file.name
    if path.exists():
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() == file.sha256:
                return
    part = directory / f"{file.name}.zst.part"
    download(link, part, LARGEST_FILE)
    unpacked = directory / f"{file.name}.unpacked.part"
    try:
        digest = _unpack(part, unpacked)
        if digest != file.sha256:
            raise FetchFailed(f"{link} has another hash than Mozilla's index says; it was deleted")
        unpacked.rename(path)
    except (zstd.ZstdError, EOFError) as error:
        raise FetchFailed(f"{link} is damaged, and was deleted: {error}") from error
    finally:
        # After a failure, another attempt fetches it anew.
        part.unlink()
        unpacked.unlink(missing_ok=True)


def _unpack(packed: Path, unpacked: Path) -> str:
    """Unpacks a file; returns the SHA-256 of its content."""
    hashed, size = hashlib.sha256(), 0
    with zstd.ZstdFile(packed, options=WINDOW) as source, unpacked.open("wb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > LARGEST_FILE:
                raise FetchFailed(f"{packed.name} unpacks to more than {LARGEST_FILE} bytes")
            hashed.update(chunk)
            target.write(chunk)
    return hashed.hexdigest()


def _complete(kinds: Iterable[str]) -> bool:
    """Whether these kinds of files are a model and its vocabularies."""
    return {"model", "vocab"} <= set(kinds) or {"model", "srcvocab", "trgvocab"} <= set(kinds)
