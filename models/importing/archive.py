"""Unpacks zip archives of models, with bounds: packages of Argos Translate, releases of OPUS-MT."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from models.importing.refusals import ImportRefused, NotACheckpoint

SUFFIXES = {".argosmodel", ".zip"}
READ = {
    *(".json", ".txt", ".yml", ".md"),
    *(".bin", ".npz", ".safetensors"),
    *(".bpe", ".model", ".spm"),
    *(".gz", ".zst"),
}
"""Suffixes of the files that readers open. Other files are not unpacked."""
LICENCE = "LICENSE"
DEEPEST = 3
"""Number of names in the longest path that is unpacked: a package, its model, a file."""
LONGEST_NAME = 200
"""Bytes of the name of a file or directory. Most file systems allow 255."""
LARGEST = 8 << 30
"""Bytes of an unpacked archive."""
LARGEST_RATIO = 100
"""Unpacked by packed size; weights are hardly compressible."""
MOST_ENTRIES = 10_000


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The directory in the archive at ``path``, until the context ends; another path as it is.

    Raises ``NotACheckpoint`` for a damaged or hostile archive.
    """
    # Marian's models are zip archives as well, which are read in place.
    archive = path.suffix in SUFFIXES or (path.is_file() and zipfile.is_zipfile(path))
    if path.suffix == ".npz" or path.is_dir() or not archive:
        yield path
        return
    with tempfile.TemporaryDirectory() as scratch:
        _unpack(path, Path(scratch))
        inner = list(Path(scratch).iterdir())
        try:
            # A package of Argos has one directory, whose name says nothing.
            yield inner[0] if len(inner) == 1 and inner[0].is_dir() else Path(scratch)
        except ImportRefused as error:
            raise type(error)(str(error).replace(scratch, str(path))) from error


def _unpack(path: Path, destination: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            for inner, entry in _wanted(path, archive).items():
                file = destination / inner
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, file.open("xb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
    except FileNotFoundError as error:
        raise NotACheckpoint(f"{path} does not exist") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise NotACheckpoint(f"{path} has a file and a directory of one name") from error
    # ZipFile raises UnicodeError for a name that is marked as UTF-8 and is not.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeError) as error:
        raise NotACheckpoint(f"{path} is a damaged archive: {error}") from error


def _wanted(path: Path, archive: zipfile.ZipFile) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """The entries to unpack, by path in the archive."""
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise NotACheckpoint(f"{path} has {len(entries)} entries; a model has a few")
    found: dict[PurePosixPath, zipfile.ZipInfo] = {}
    for entry in entries:
        inner = PurePosixPath(entry.filename.replace("\\", "/"))
        parts = inner.parts
        if not parts or ".." in parts or inner.is_absolute() or ":" in parts[0]:
            raise NotACheckpoint(f"{path} has the entry {entry.filename!r}, which climbs out of it")
        if max(len(part.encode("utf-8", "surrogatepass")) for part in parts) > LONGEST_NAME:
            raise NotACheckpoint(
                f"{path} has the name {entry.filename[:40]!r}…; {LONGEST_NAME} bytes are allowed"
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise NotACheckpoint(f"{path} has the link {entry.filename!r}")
        read = inner.suffix in READ or inner.name == LICENCE
        if entry.is_dir() or not read or len(parts) > DEEPEST:
            continue
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise NotACheckpoint(f"{path}: {entry.filename} is neither stored nor deflated")
        if entry.file_size > LARGEST_RATIO * (entry.compress_size + 1024):
            raise NotACheckpoint(
                f"{path}: {entry.filename} unpacks {entry.compress_size} to {entry.file_size} bytes"
            )
        if inner in found:
            raise NotACheckpoint(f"{path} has {entry.filename!r} twice")
        found[inner] = entry
    size = sum(entry.file_size for entry in found.values())
    if size > LARGEST:
        raise NotACheckpoint(f"{path} unpacks to {size} bytes; {LARGEST} are allowed")
    return found
