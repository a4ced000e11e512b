"""Reads configurations, vocabularies and tokenizers of models whole, with a bound of bytes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from models.importing.refusals import NotACheckpoint

LARGEST = 64 << 20
"""Bytes of a file; ``tokenizer.json`` of NLLB, the largest known, has half of them."""


def read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises ``NotACheckpoint`` for a file that is missing, unreadable, too large or not a plain file.
    """
    try:
        # Not blocking: opening a FIFO would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotACheckpoint(f"{path} is not a plain file")
            content = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise NotACheckpoint(f"{path.parent} has no {path.name}") from error
    except OSError as error:
        raise NotACheckpoint(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > LARGEST:
        raise NotACheckpoint(f"{path} has more than {LARGEST} bytes")
    return content


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises ``NotACheckpoint`` as ``read_bytes`` does."""
    try:
        found = json.loads(read_bytes(path).decode("utf-8"))
        # Raises for a lone surrogate, which no vocabulary could have.
        json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError) as error:
        raise NotACheckpoint(f"{path} cannot be read as JSON: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; raises ``NotACheckpoint`` as ``read_json`` does."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise NotACheckpoint(f"{path} holds no JSON object")
    return found
