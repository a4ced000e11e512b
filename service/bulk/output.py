"""Outputs of a bulk translation: a stream, or a file that can be resumed after a crash.

A file is written as ``NAME.unfinished``, with its journal as ``NAME.journal``, and renamed when
complete. The output is synced to disk before the journal records its length. So bytes beyond that
length are uncommitted, and a resumed run truncates them.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from service.bulk.disk import Disk
from service.bulk.journal import Journal, Progress, UnusableJournal

_JOURNAL_SECONDS = 1.0


class OutputTaken(Exception):
    """Another process writes the same file."""


class Output(Protocol):
    """Receives the translated blocks in order."""

    def write(self, content: bytes) -> int:
        """Write a translated block; returns the number of bytes written."""
        ...

    def reached(self, progress: Progress) -> None:
        """Record that everything up to ``progress`` has been written."""
        ...


class Stream:
    """Standard output or a pipe; every block is flushed at once."""

    def __init__(self, file: BinaryIO, *, compressed: bool) -> None:
        self._file = file
        self._compressed = compressed

    def write(self, content: bytes) -> int:
        content = _compressed(content) if self._compressed else content
        self._file.write(content)
        self._file.flush()
        return len(content)

    def reached(self, progress: Progress) -> None:
        pass


class ResumableFile:
    """A file that gets its name once it is complete; see the module docstring.

    ``made_with`` are the settings that determine the content, besides the source. Raises
    ``OutputTaken``, ``UnusableJournal`` and ``OSError``.
    """

    def __init__(
        self,
        path: Path,
        made_with: Mapping[str, Any],
        *,
        compressed: bool,
        restart: bool = False,
        disk: Disk | None = None,
        journal_seconds: float = _JOURNAL_SECONDS,
    ) -> None:
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.unfinished")
        self._journal = path.with_name(f"{path.name}.journal")
        self._made_with = made_with
        self._compressed = compressed
        self._disk = disk or Disk()
        self._journal_seconds = journal_seconds
        self._descriptor = self._locked()
        try:
            self.progress = Progress() if restart else self._found()
            """Progress of earlier runs."""
            if self.progress == Progress():
                # A stale journal would be trusted once the file is as long again.
                self._disk.remove(self._journal)
            self._disk.truncate(self._descriptor, self.progress.written)
        except BaseException:
            self._disk.close(self._descriptor)
            raise
        self.latest = self._kept = self.progress
        """Progress so far."""
        self._journalled = time.monotonic()

    def write(self, content: bytes) -> int:
        # An empty member of gzip has bytes, too.
        content = _compressed(content) if self._compressed and content else content
        self._disk.write(self._descriptor, content)
        return len(content)

    def reached(self, progress: Progress) -> None:
        self.latest = progress
        if time.monotonic() - self._journalled >= self._journal_seconds:
            self.keep()

    def keep(self) -> None:
        """Sync the output and write the journal, so that ``latest`` survives a crash."""
        if self.latest == self._kept:
            return
        self._disk.sync(self._descriptor)
        beside = self._journal.with_name(f"{self._journal.name}.next")
        descriptor = self._disk.open(beside)
        try:
            self._disk.truncate(descriptor, 0)
            self._disk.write(descriptor, Journal(self._made_with, self.latest).to_json())
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.rename(beside, self._journal)
        self._kept = self.latest
        self._journalled = time.monotonic()

    def finish(self) -> None:
        """Give the file its name and remove the journal."""
        if self._compressed and not self.latest.written:
            self._disk.write(self._descriptor, _compressed(b""))
        self._disk.sync(self._descriptor)
        self._disk.rename(self._unfinished, self._path)
        self._disk.remove(self._journal)

    def close(self) -> None:
        """Keep an unfinished file for a later run; remove it if no progress was made."""
        try:
            if self._disk.named(self._descriptor, self._unfinished):
                self.keep()
                if self._kept == Progress():
                    self._disk.remove(self._unfinished)
        finally:
            self._disk.close(self._descriptor)

    def _locked(self) -> int:
        while True:
            descriptor = self._disk.open(self._unfinished)
            try:
                self._disk.lock(descriptor)
            except BlockingIOError:
                self._disk.close(descriptor)
                raise OutputTaken(f"{self._path} is being written by another process") from None
            except BaseException:
                self._disk.close(descriptor)
                raise
            # Between open and lock, another process may have finished and renamed the file.
            if self._disk.named(descriptor, self._unfinished):
                return descriptor
            self._disk.close(descriptor)

    def _found(self) -> Progress:
        text = self._disk.read(self._journal)
        size = self._disk.size(self._descriptor)
        if text is None or size == 0:
            # Nothing was done without a journal. An empty output means that its job had finished.
            return Progress()
        try:
            journal = Journal.from_json(text)
            journal.require(self._made_with)
            if size < journal.progress.written:
                raise UnusableJournal(f"{self._unfinished.name} is shorter than it was")
        except UnusableJournal as error:
            raise UnusableJournal(
                f"{self._path} was begun otherwise: {error}; do the same, or begin anew with "
                "--restart"
            ) from error
        return journal.progress


def _compressed(content: bytes) -> bytes:
    # A separate gzip member without a timestamp, so that equal content gives equal bytes.
    return gzip.compress(content, compresslevel=6, mtime=0)
