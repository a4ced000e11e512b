"""Reads packages of Argos Translate (``.argosmodel``), which LibreTranslate serves.

A package is a zip archive, or the directory that it unpacks to: ``metadata.json``, a CTranslate2
model in ``model``, and ``sentencepiece.model``. Only files that the reader needs are unpacked.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from models.bundle.manifest import DecodingDefaults
from models.importing.ctranslate2 import document, read_ctranslate2
from models.importing.languages import Languages, asked_code
from models.importing.model import Imported
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.vocabulary import Vocabulary

SUFFIX = ".argosmodel"
METADATA, MODEL = "metadata.json", "model"
NEEDED = {METADATA, "sentencepiece.model", "bpe.model"}
LARGEST = 8 << 30
"""Bytes of an unpacked package."""
LARGEST_RATIO = 100
"""Unpacked by packed size; weights are hardly compressible."""
MOST_ENTRIES = 10_000
# Those of Argos Translate.
DECODING = DecodingDefaults(beam_size=4, length_penalty=0.2)


def is_argos(path: Path) -> bool:
    if path.is_dir():
        return (path / METADATA).is_file() and (path / MODEL).is_dir()
    return path.suffix == SUFFIX or (path.is_file() and zipfile.is_zipfile(path))


def read_argos(path: Path) -> Imported:
    """Raises ``NotACheckpoint``, ``UnsupportedCheckpoint`` or ``UnknownLanguages``."""
    if path.is_dir():
        return _read(path)
    with tempfile.TemporaryDirectory() as scratch:
        _unpack(path, Path(scratch))
        return _read(Path(scratch))


def _read(directory: Path) -> Imported:
    metadata = document(directory / METADATA)
    if not isinstance(metadata, dict):
        raise NotACheckpoint(f"{directory / METADATA} holds no JSON object")
    if metadata.get("type", "translate") != "translate":
        raise UnsupportedCheckpoint(
            f"the package is of type {metadata['type']!r}; packages that translate can be imported"
        )
    source, target = (asked_code(str(metadata.get(key))) for key in ("from_code", "to_code"))
    prefix = metadata.get("target_prefix") or ""

    def languages(_: Vocabulary, target_rows: Vocabulary) -> Languages:
        return Languages(
            source={source: ()}, target={target: ()}, fed={target: _ids(target_rows, prefix)}
        )

    imported = read_ctranslate2(directory / MODEL, directory, languages)
    return replace(imported, library="Argos Translate", decoding=DECODING)


def _ids(rows: Vocabulary, prefix: Any) -> tuple[int, ...]:
    if not prefix:
        return ()
    try:
        return (rows.id_of(prefix),)
    except ValueError as error:
        raise UnsupportedCheckpoint(f"its target_prefix {prefix!r} is no token") from error


def _unpack(path: Path, destination: Path) -> None:
    """Unpack what is needed; raises ``NotACheckpoint`` for a damaged or hostile archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = _wanted(path, archive)
            for inner, entry in wanted.items():
                file = destination / inner
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, file.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
    except FileNotFoundError as error:
        raise NotACheckpoint(f"{path} does not exist") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise NotACheckpoint(f"{path} is a damaged archive: {error}") from error


def _wanted(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The entries to unpack, by path in the package."""
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise NotACheckpoint(f"{path} has {len(entries)} entries; a package has a few")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
        if not parts or ".." in parts or PurePosixPath(*parts).is_absolute() or ":" in parts[0]:
            raise NotACheckpoint(f"{path} has the entry {entry.filename!r}, which climbs out of it")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise NotACheckpoint(f"{path} has the link {entry.filename!r}")
        # A package has one directory, whose name says nothing.
        inner = parts[1:]
        needed = inner[:1] == (MODEL,) if len(inner) == 2 else "/".join(inner) in NEEDED
        if entry.is_dir() or not needed:
            continue
        if entry.file_size > LARGEST_RATIO * (entry.compress_size + 1024):
            raise NotACheckpoint(
                f"{path}: {entry.filename} unpacks {entry.compress_size} to {entry.file_size} bytes"
            )
        found["/".join(inner)] = entry
    size = sum(entry.file_size for entry in found.values())
    if size > LARGEST:
        raise NotACheckpoint(f"{path} unpacks to {size} bytes; {LARGEST} are allowed")
    if METADATA not in found:
        raise NotACheckpoint(f"{path} has no {METADATA}, so it is no package of Argos Translate")
    return found
