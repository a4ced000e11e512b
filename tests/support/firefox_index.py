"""Mozilla's index of models and their packed files, on the stand-in of the hub."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from models.zstandard import zstd
from tests.support.hub import Hub

KINDS = {"model": "model", "vocab": "vocab", "srcvocab": "srcvocab", "trgvocab": "trgvocab"}


def records_of(
    hub: Hub, directory: Path, pair: tuple[str, str], version: str = "2.0", **changes: Any
) -> list[dict[str, Any]]:
    """Publishes the files of a model; returns their records."""
    records = []
    for file in sorted(directory.iterdir()):
        kind = KINDS.get(file.name.partition(".")[0], "lex")
        location = f"models/{version}-{file.name}.zst"
        hub.files[location] = zstd.compress(file.read_bytes())
        record = {
            "name": file.name,
            "fileType": kind,
            "sourceLanguage": pair[0],
            "targetLanguage": pair[1],
            "version": version,
            "architecture": "tiny",
            "decompressedHash": hashlib.sha256(file.read_bytes()).hexdigest(),
            "attachment": {"location": location},
        }
        records.append(record | changes)
    return records


def publish(hub: Hub, *records: dict[str, Any]) -> str:
    """The address of an index of records."""
    hub.files["records.json"] = json.dumps({"data": records}).encode()
    return f"{hub.address}/files/records.json"
