"""File operations on translated documents: safe names, whole writes, removal of old files."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

_LONGEST_NAME = 120


def without_path(filename: str) -> str:
    """A name that is safe to send back: its last part, printable, its extension kept."""
    last = PurePosixPath(filename.strip().replace("\\", "/"))
    printable = "".join(character for character in last.stem if character.isprintable())
    return (printable[:_LONGEST_NAME] or "document") + last.suffix.lower()


def write(path: Path, content: bytes) -> None:
    """Write a file; raises ``OSError`` and leaves no partial file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.write_bytes(content)
    except OSError:
        # A partial file would keep a full disk full.
        path.unlink(missing_ok=True)
        raise


def files_in(directory: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return list(directory.iterdir())
    return []


def remove_old(directory: Path, own: Path, seconds: float) -> None:
    """Remove directories, except ``own``, that were not modified for ``seconds``."""
    # Other processes may remove the same directories.
    with suppress(FileNotFoundError):
        for each in directory.iterdir():
            if each != own and each.is_dir() and time.time() - each.stat().st_mtime > seconds:
                shutil.rmtree(each, ignore_errors=True)
