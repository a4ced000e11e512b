"""In-memory disk with simulated power cuts, and a bulk job on it without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from service.bulk.disk import Disk
from service.bulk.job import translate_blocks
from service.bulk.output import ResumableFile
from service.bulk.progress import Bar
from service.bulk.reading import Block, BlockSize, blocks, in_thread
from service.bulk.rows import Format
from service.bulk.source import Source
from service.bulk.translating import Done, Report

TARGET = Path("/disk/out.txt")
MADE_WITH = {"beam_size": 4}


class PowerCut(BaseException):
    """Simulated power cut; a ``BaseException``, so that the code under test cannot handle it."""


@dataclass(eq=False)
class Contents:
    """A file: content in the page cache, and content that survives a power cut."""

    seen: bytes = b""
    safe: bytes = b""
    locked: bool = False


@dataclass
class CrashingDisk(Disk):
    """Loses power before or during operation number ``cuts_at`` + 1."""

    random: Random
    cuts_at: int | None = None
    deeds: int = 0
    names: dict[Path, Contents] = field(default_factory=dict)
    opened: dict[int, Contents] = field(default_factory=dict)

    def restart(self, cuts_at: int | None) -> None:
        """Restore power. A random part of the unsynced content has reached the disk."""
        for contents in self.names.values():
            contents.locked = False
            if contents.seen.startswith(contents.safe):
                kept = self.random.randint(len(contents.safe), len(contents.seen))
                contents.safe = contents.seen[:kept]
            elif self.random.random() < 0.5:
                contents.safe = contents.seen
            contents.seen = contents.safe
        self.opened.clear()
        self.cuts_at, self.deeds = cuts_at, 0

    def _deed(self) -> bool:
        """Count an operation; true if power is lost during it."""
        self.deeds += 1
        if self.cuts_at is None or self.deeds <= self.cuts_at:
            return False
        if self.deeds == self.cuts_at + 1 and self.random.random() < 0.5:
            return True
        raise PowerCut

    @contextmanager
    def _doing(self) -> Iterator[None]:
        cut = self._deed()
        yield
        if cut:
            raise PowerCut

    def open(self, path: Path) -> int:
        descriptor = max(self.opened, default=2) + 1
        self.opened[descriptor] = self.names.setdefault(path, Contents())
        return descriptor

    def lock(self, descriptor: int) -> None:
        if self.opened[descriptor].locked:
            raise BlockingIOError
        self.opened[descriptor].locked = True

    def write(self, descriptor: int, content: bytes) -> None:
        if self._deed():
            self.opened[descriptor].seen += content[: self.random.randint(0, len(content))]
            raise PowerCut
        self.opened[descriptor].seen += content

    def truncate(self, descriptor: int, size: int) -> None:
        with self._doing():
            self.opened[descriptor].seen = self.opened[descriptor].seen[:size]

    def sync(self, descriptor: int) -> None:
        with self._doing():
            self.opened[descriptor].safe = self.opened[descriptor].seen

    def close(self, descriptor: int) -> None:
        self.opened.pop(descriptor).locked = False

    def size(self, descriptor: int) -> int:
        return len(self.opened[descriptor].seen)

    def named(self, descriptor: int, path: Path) -> bool:
        return self.names.get(path) is self.opened[descriptor]

    def read(self, path: Path) -> bytes | None:
        return self.names[path].seen if path in self.names else None

    def rename(self, old: Path, new: Path) -> None:
        with self._doing():
            self.names[new] = self.names.pop(old)

    def remove(self, path: Path) -> None:
        with self._doing():
            self.names.pop(path, None)


def run(
    source: Path,
    rows: Format,
    disk: Disk,
    size: BlockSize,
    *,
    target: Path = TARGET,
    made_with: Mapping[str, Any] = MADE_WITH,
    compressed: bool = False,
    restart: bool = False,
) -> int:
    """Upper-case every line of a file into another; returns the first line done, from 0."""

    async def shout(block: Block, report: Report | None) -> Done:
        lines = [rows.write(row, row.text.upper()) for row in block.rows]
        return Done(block.header + b"".join(lines), len(lines))

    with closing(Source(str(source))) as opened:
        file = ResumableFile(
            target, made_with, compressed=compressed, restart=restart, disk=disk, journal_seconds=0
        )
        with closing(file):
            found = blocks(opened, rows, size, file.progress.place)
            work = translate_blocks(
                in_thread(found), shout, file, file.progress, ahead=2, bar=Bar(None, None)
            )
            try:
                asyncio.run(work)
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
            file.finish()
        return file.progress.place.lines
