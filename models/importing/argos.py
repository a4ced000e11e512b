"""Reads packages of Argos Translate (``.argosmodel``), which LibreTranslate serves.

A package unpacks to a directory with ``metadata.json``, a CTranslate2 model in ``model``, and
``sentencepiece.model``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from models.bundle.manifest import DecodingDefaults
from models.importing.ctranslate2 import read_ctranslate2
from models.importing.languages import Languages, asked_code
from models.importing.model import Imported
from models.importing.refusals import UnsupportedCheckpoint
from models.importing.side_files import read_object
from models.importing.vocabulary import Vocabulary

METADATA, MODEL = "metadata.json", "model"
# Argos Translate has these defaults.
DECODING = DecodingDefaults(beam_size=4, length_penalty=0.2)


def is_argos(path: Path) -> bool:
    return (path / METADATA).is_file() and (path / MODEL).is_dir()


def read_argos(directory: Path) -> Imported:
    """Raises ``NotACheckpoint``, ``UnsupportedCheckpoint`` or ``UnknownLanguages``."""
    metadata = read_object(directory / METADATA)
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
