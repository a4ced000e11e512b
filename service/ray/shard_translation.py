"""What an actor does with a shard: reads it, translates its rows in company, writes its part.

A row keeps its place: one that cannot be translated is left empty and counted, so that line n of a
part is of line n of its shard. Knows nothing of Ray.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from service.bulk.rows import Format, Row
from service.engine.errors import SentenceTooLong
from service.ray.shards import LINE_BYTES, CorpusError, Shard, lines_of, written
from service.translation.errors import InvalidText, TextTooLarge
from service.translation.translator import Translator
from service.translation.types import LanguagePair, TranslateRequest

T = TypeVar("T")

_IN_FLIGHT = 1024
"""Texts, so that a batch is full whatever their lengths."""

_OF_THE_TEXT = (InvalidText, SentenceTooLong, TextTooLarge)
"""What is wrong with one text; everything else would happen to its neighbours, too."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a shard."""

    part: str
    rows: int
    unfit: int
    """Rows that could not be translated, and have been left empty."""
    cut: int
    """Rows whose translation reached its longest length."""
    first_unfit: str
    """Where, and why; empty if there is none."""
    actor: str
    """Which process did it: its machine's name and its number there."""


class Tally:
    """Counts while a shard is being translated."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._rows = self._unfit = self._cut = 0
        self._first = ""

    def add(self, problem: str | None, *, cut: bool) -> None:
        self._rows += 1
        self._cut += cut
        if problem is not None:
            self._unfit += 1
            self._first = self._first or f"{self._shard.part}, row {self._rows}: {problem}"

    def done(self) -> Done:
        actor = f"{os.uname().nodename}:{os.getpid()}"
        return Done(self._shard.part, self._rows, self._unfit, self._cut, self._first, actor)


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    problem: str | None = None
    cut: bool = False


async def translate_lines(
    translator: Translator, pair: LanguagePair, shard: Shard, format_: Format
) -> Done:
    """Write the part of a shard of lines; raises ``CorpusError`` and whatever ends the work."""
    tally = Tally(shard)
    with opened(shard.source) as file, written(Path(shard.part)) as part:
        header = format_.header(first) if (first := file.readline(LINE_BYTES + 1)) else None
        file.seek(0)
        lines = lines_of(shard, file)
        if header is not None and shard.begin == 0:
            next(lines)
            part.write(header)
        rows = (format_.read(line) for line in lines)
        async for row, outcome in in_company(translator, pair, rows, _text_of):
            problem = row.problem or outcome.problem
            tally.add(problem, cut=outcome.cut)
            part.write(format_.write(row, outcome.text))
    return tally.done()


async def in_company(
    translator: Translator,
    pair: LanguagePair,
    items: Iterable[T],
    text_of: Callable[[T], str],
) -> AsyncIterator[tuple[T, Outcome]]:
    """Each item with the translation of its text, in order, many being translated at once."""
    waiting: deque[tuple[T, asyncio.Task[Outcome]]] = deque()
    try:
        for item in items:
            task = asyncio.create_task(_translate(translator, pair, text_of(item)))
            waiting.append((item, task))
            if len(waiting) >= _IN_FLIGHT:
                oldest, done = waiting.popleft()
                yield oldest, await done
        while waiting:
            oldest, done = waiting.popleft()
            yield oldest, await done
    finally:
        left = [task for _, task in waiting]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def opened(source: str) -> Iterator[IO[bytes]]:
    """A file, expanded if it is compressed; raises ``OSError`` and ``CorpusError``."""
    try:
        if not source.endswith(".gz"):
            with open(source, "rb") as file:
                yield file
        else:
            with gzip.open(source, "rb") as expanded:
                yield io.BufferedReader(expanded)
    except (gzip.BadGzipFile, EOFError) as error:
        raise CorpusError(f"{source} is not gzip, or is damaged: {error}") from error


async def _translate(translator: Translator, pair: LanguagePair, text: str) -> Outcome:
    if not text.strip():
        return Outcome(text)
    request = TranslateRequest((text,), pair.target, pair.source, priority="bulk")
    try:
        (translation,) = await translator.translate(request)
    except _OF_THE_TEXT as error:
        return Outcome("", problem=str(error))
    return Outcome(translation.text, cut=translation.truncated)


def _text_of(row: Row) -> str:
    return row.text
