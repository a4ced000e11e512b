"""Cuts a corpus into shards and finds those that are not translated yet. Independent of Ray.

A shard is a contiguous range of one file. Its translation is a file named in source order:
``OUT/news.txt/part-00003.txt``. Parts appear atomically, so an existing part is complete.
``OUT/shards.json`` records how the corpus was cut. A run resumes only with the same plan.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from service.bulk.disk import Disk
from service.bulk.reading import LINE_BYTES

_ALL = 1 << 62
"""Upper bound of bytes: the expanded size of a compressed file is unknown before its end."""

_PLAN = "shards.json"
_UNFINISHED = ".unfinished"


class CorpusError(Exception):
    """A corpus that cannot be translated or resumed; the message says why."""


@dataclass(frozen=True, slots=True)
class Shard:
    source: str
    part: str
    """Path of the output file."""
    begin: int
    end: int
    """Byte range; holds the lines that begin within it. For Parquet, a range of row groups."""


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """The options and source files that determine the shards and their translations."""

    made_with: Mapping[str, Any]
    files: Mapping[str, tuple[int, int]]
    """Size, and modification time in nanoseconds, by name."""

    def keep(self, output: Path) -> None:
        """Write the plan, or compare it with the existing one; raises ``CorpusError``."""
        path, plan = output / _PLAN, asdict(self)
        # Normalise through JSON, so that it compares equal to a plan read from disk.
        plan = json.loads(json.dumps(plan))
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            if plan != before:
                raise CorpusError(
                    f"{output} holds translations of other files, or made otherwise "
                    f"({path} says how); choose another directory, or remove this one"
                )
            return
        if any(output.iterdir()):
            raise CorpusError(f"{output} is not empty and holds no {_PLAN}; choose another one")
        with write_atomically(path) as file:
            file.write(json.dumps(plan, indent=1).encode())


def files_of(source: Path) -> list[Path]:
    """A file, or all files below a directory except hidden ones; raises ``CorpusError``."""
    if not source.is_dir():
        if not source.is_file():
            raise CorpusError(f"{source} is neither a file nor a directory")
        return [source]
    inside = [path for path in sorted(source.rglob("*")) if path.is_file()]
    found = [p for p in inside if not any(s.startswith(".") for s in p.relative_to(source).parts)]
    if not found:
        raise CorpusError(f"{source} holds no files")
    return found


def names_of(files: Sequence[Path], source: Path) -> dict[str, Path]:
    """The files by their paths relative to ``source``."""
    base = source if source.is_dir() else source.parent
    return {str(path.relative_to(base)): path for path in files}


def cut(name: str, path: Path, output: Path, size: int, whole: int) -> Iterator[Shard]:
    """The shards of a file; ``size`` and ``whole`` are in bytes, or in row groups."""
    compressed = path.suffix == ".gz"
    number = 1 if compressed else max(1, math.ceil(whole / size))
    suffix = "".join(path.suffixes[-2:]) if compressed else path.suffix
    for index in range(number):
        part = output / name / f"part-{index:05}{suffix.removesuffix('.gz')}"
        end = _ALL if compressed else (index + 1) * size
        yield Shard(str(path), str(part), index * size, end)


def bounds(shard: Shard) -> tuple[int, int | None]:
    """First and last byte, exclusive, of the lines that begin within a shard of lines.

    ``None`` is the end of the file. Raises ``CorpusError`` and ``OSError``.
    """
    if shard.end == _ALL:
        return 0, None
    with open(shard.source, "rb") as file:
        return _line_start(shard, file, shard.begin), _line_start(shard, file, shard.end)


def _line_start(shard: Shard, file: BinaryIO, place: int) -> int:
    """Start of the first line that begins at or after ``place``, or the end of the file."""
    if not place:
        return 0
    # A line that begins at this place or later follows the line that holds the byte before it.
    file.seek(place - 1)
    return file.tell() + len(_line(shard, file))


def first_line(shard: Shard) -> bytes:
    """First line of the shard's uncompressed file; raises ``CorpusError`` and ``OSError``."""
    with open(shard.source, "rb") as file:
        return _line(shard, file)


def _line(shard: Shard, file: BinaryIO) -> bytes:
    line = file.readline(LINE_BYTES + 1)
    if len(line) > LINE_BYTES:
        raise CorpusError(f"{shard.source} has a line of more than {LINE_BYTES >> 20} MiB")
    return line


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Write a file atomically: it is synced to disk, then renamed to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # If Ray restarts an actor that still runs, both write the same part: use separate names.
    unfinished = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}{_UNFINISHED}")
    disk = Disk()
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            disk.sync(file.fileno())
        disk.rename(unfinished, path)
    finally:
        disk.remove(unfinished)


def undone(shards: Sequence[Shard]) -> list[Shard]:
    return [shard for shard in shards if not os.path.exists(shard.part)]


def sweep(output: Path) -> None:
    """Remove unfinished files of killed processes. Call before any actor writes."""
    for path in output.rglob(f".*{_UNFINISHED}"):
        path.unlink(missing_ok=True)
