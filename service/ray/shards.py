"""How a corpus is cut into shards, and which of them have been done. Knows nothing of Ray.

A shard is a stretch of one file and becomes one file of its own, under a name that is in the order
of the source: ``OUT/news.txt/part-00003.txt``. It appears in one moment, complete, so whatever is
there has been done. ``OUT/shards.json`` says how the corpus was cut; only the same is gone on with.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from service.bulk.disk import Disk

LINE_BYTES = 4 << 20
"""No line may be longer."""

_ALL = 1 << 62
"""Bytes; how many a compressed file has is known at its end."""

_PLAN = "shards.json"
_UNFINISHED = ".unfinished"


class CorpusError(Exception):
    """What cannot be translated, or not gone on with, and why."""


@dataclass(frozen=True, slots=True)
class Shard:
    source: str
    part: str
    """The file that it becomes."""
    begin: int
    end: int
    """Bytes: of the lines that begin within. Of Parquet, numbers of row groups."""


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """How a corpus was cut, and what the result depends on beside it."""

    made_with: Mapping[str, Any]
    files: Mapping[str, tuple[int, int]]
    """Size, and time of the last change in nanoseconds, by name."""

    def keep(self, output: Path) -> None:
        """Write it down, or compare it with what was; raises ``CorpusError``."""
        path, said = output / _PLAN, asdict(self)
        # As it is read again, so that both compare.
        said = json.loads(json.dumps(said))
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            if said != before:
                raise CorpusError(
                    f"{output} holds translations of other files, or made otherwise "
                    f"({path} says how); choose another directory, or remove this one"
                )
            return
        if any(output.iterdir()):
            raise CorpusError(f"{output} is not empty and holds no {_PLAN}; choose another one")
        with written(path) as file:
            file.write(json.dumps(said, indent=1).encode())


def files_of(source: Path) -> list[Path]:
    """A file, or those in a directory and below, hidden ones left out; raises ``CorpusError``."""
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
    """The files by their names below ``source``."""
    base = source if source.is_dir() else source.parent
    return {str(path.relative_to(base)): path for path in files}


def cut(name: str, path: Path, output: Path, size: int, whole: int) -> Iterator[Shard]:
    """The shards of a file of ``whole`` bytes, or row groups, of ``size`` each."""
    compressed = path.suffix == ".gz"
    number = 1 if compressed else max(1, math.ceil(whole / size))
    suffix = "".join(path.suffixes[-2:]) if compressed else path.suffix
    for index in range(number):
        part = output / name / f"part-{index:05}{suffix.removesuffix('.gz')}"
        end = _ALL if compressed else (index + 1) * size
        yield Shard(str(path), str(part), index * size, end)


def lines_of(shard: Shard, file: IO[bytes]) -> Iterator[bytes]:
    """The lines that begin within the shard, ends included; raises ``CorpusError``."""
    place = shard.begin
    if place:
        # What precedes the shard ends with its first line end at or after the byte before it.
        file.seek(place - 1)
        place += len(_line(shard, file)) - 1
    while place < shard.end and (line := _line(shard, file)):
        place += len(line)
        yield line


def _line(shard: Shard, file: IO[bytes]) -> bytes:
    line = file.readline(LINE_BYTES + 1)
    if len(line) > LINE_BYTES:
        raise CorpusError(f"{shard.source} has a line of more than {LINE_BYTES >> 20} MiB")
    return line


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name complete and on the disk, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two may write the same part, when one was taken for dead: each its own, and alike.
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
    """Remove what was left unfinished by those who were killed; before anybody writes."""
    for path in output.rglob(f".*{_UNFINISHED}"):
        path.unlink(missing_ok=True)
