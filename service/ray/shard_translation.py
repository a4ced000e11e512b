"""Translates one shard: reads its rows, translates many at once, and writes its part.

Line n of a part is the translation of line n of its shard. A row that cannot be translated is left
empty and counted. Knows nothing of Ray.
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
"""Texts translated at once; enough to fill the batch at any text length."""

_OF_THE_TEXT = (InvalidText, SentenceTooLong, TextTooLarge)
"""Errors of a single text. All other errors would also affect the texts after it."""


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a shard."""

    part: str
    rows: int
    unfit: int
    """Rows left empty because they could not be translated."""
    cut: int
    """Rows whose translation was truncated at the maximum length."""
    first_unfit: str
    """Place and reason of the first such row; empty if there is none."""
    actor: str
    """Host name and process id of the actor."""


class Tally:
    """Running counts of a shard."""

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
    """Write the part of a shard of lines; raises ``CorpusError`` and errors of the engine."""
    tally = Tally(shard)
    with opened(shard.source) as file, written(Path(shard.part)) as part:
        header = format_.header(first) if (first := file.readline(LINE_BYTES + 1)) else None
        file.seek(0)
        lines = lines_of(shard, file)
        if header is not None and shard.begin == 0:
            next(lines)
            part.write(header)
        rows = (format_.read(line) for line in lines)
        async for row, outcome in translate_rows(translator, pair, rows, _text_of):
            problem = row.problem or outcome.problem
            tally.add(problem, cut=outcome.cut)
            part.write(format_.write(row, outcome.text))
    return tally.done()


async def translate_rows(
    translator: Translator,
    pair: LanguagePair,
    items: Iterable[T],
    text_of: Callable[[T], str],
) -> AsyncIterator[tuple[T, Outcome]]:
    """Yield each item with its translation, in order; translates up to 1024 at once."""
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
    """Open a file, decompressing gzip; raises ``OSError`` and ``CorpusError``."""
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
