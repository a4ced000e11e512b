"""Translates line by line, many at a time, and delivers in the order of the lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable

from service.engine.errors import EngineError
from service.translation.errors import TranslationError
from service.translation.together import together
from service.translation.translator import Translator
from service.translation.types import LanguagePair, TranslateRequest, Translation

_LINES_IN_FLIGHT = 256


class LineFailed(Exception):
    """A line that could not be translated, by its number from one, and why."""

    def __init__(self, number: int, reason: object) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number


async def translate_lines(
    translator: Translator,
    pair: LanguagePair,
    lines: AsyncIterable[bytes],
    deliver: Callable[[Translation], None],
) -> None:
    """Call ``deliver`` once for each line of UTF-8, as soon as it and all before it are done.

    Stops at the first line that fails, after delivering those before it; raises ``LineFailed``.
    """
    waiting: asyncio.Queue[asyncio.Task[Translation | LineFailed] | None]
    waiting = asyncio.Queue(_LINES_IN_FLIGHT)

    async def translate(number: int, line: bytes) -> Translation | LineFailed:
        # Returned, not raised: a raise would cancel the lines before this one.
        try:
            request = TranslateRequest(
                (line.decode("utf-8"),), pair.target, pair.source, priority="bulk"
            )
            return (await translator.translate(request))[0]
        except UnicodeDecodeError:
            return LineFailed(number, "is not UTF-8")
        except (TranslationError, EngineError) as error:
            return LineFailed(number, error)

    async def read(group: asyncio.TaskGroup) -> None:
        number = 0
        async for line in lines:
            number += 1
            await waiting.put(group.create_task(translate(number, line)))
        await waiting.put(None)

    async with together() as group:
        group.create_task(read(group))
        while (task := await waiting.get()) is not None:
            outcome = await task
            if isinstance(outcome, LineFailed):
                raise outcome
            deliver(outcome)
