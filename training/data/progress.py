"""State of an unfinished ``prepare``, from which the same command goes on after a kill.

The document names what is prepared: a resumed preparation must be of the same settings and of
files of the same content. The other fields say how far the appended files beside it are valid.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from training.refusal import Refusal

NAME = "progress.json"
FORMAT = 1
"""Version of the document and of the files that it describes."""
SAVE_SECONDS = 10.0
"""Time between two states on disk, at least."""


class CannotResume(Refusal):
    """A file of an unfinished preparation is shorter than it was; says what to do."""


class Progress:
    """The document of a directory, saved through a rename, after the files that it describes."""

    def __init__(self, directory: Path, prepared: Any) -> None:
        """Read the state of ``directory``; empty the directory if the state is not of ``prepared``,
        which consists of JSON values."""
        self._path = directory / NAME
        self._saved = time.monotonic()
        wanted = {"format": FORMAT, "prepared": prepared}
        try:
            self.document = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            self.document = {}
        self.resumed = wanted == {key: self.document.get(key) for key in wanted}
        if not self.resumed:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            self.document = wanted

    def save(self, name: str, state: Any) -> None:
        """Set a field and write the document."""
        self.document[name] = state
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(self.document, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        self._saved = time.monotonic()

    def save_at_times(self, name: str, state: Callable[[], Any]) -> None:
        """``save`` if the last one was ``SAVE_SECONDS`` ago; ``state`` also writes its files."""
        if time.monotonic() >= self._saved + SAVE_SECONDS:
            self.save(name, state())


def opened_at(path: Path, size: int) -> BinaryIO:
    """A file to append to, cut to ``size`` bytes. Raises ``CannotResume`` if it has fewer."""
    file = path.open("r+b" if size else "wb")
    if os.fstat(file.fileno()).st_size < size:
        file.close()
        raise CannotResume(f"{path} has lost part of its content; the same command begins again")
    file.truncate(size)
    file.seek(size)
    return file


def synced(*files: BinaryIO) -> None:
    """Write what is buffered, and wait until it is on the disk."""
    for file in files:
        file.flush()
        os.fsync(file.fileno())
