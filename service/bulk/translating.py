"""Translates one block of rows as a single request, longest texts first.

The texts of a block are always decoded together. Batch composition changes a translation by
rounding only, but rounding can decide between two hypotheses of equal score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from service.bulk.reading import BadLine, Block
from service.bulk.rows import Format
from service.engine.errors import EngineError, SentenceTooLong
from service.translation.decoding import DecodingOverrides
from service.translation.errors import TranslationError
from service.translation.translator import Translator
from service.translation.types import LanguagePair, TranslateRequest


class BlockFailed(Exception):
    """A block could not be translated, for a reason not related to a single line."""


class Watcher(Protocol):
    """Receives the progress of a block."""

    def decoded(self) -> None:
        """About one more sentence has been translated."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a block, or of its rows before the first that cannot be translated."""

    content: bytes
    rows: int
    sentences: int = 0
    cut: tuple[int, ...] = ()
    """Numbers of lines whose translation was truncated."""
    skipped: tuple[int, ...] = ()
    """Numbers of lines that could not be translated and were left empty."""
    failure: BadLine | BlockFailed | None = None
    """Reason why the remaining rows were not translated."""


TranslateBlock = Callable[[Block, Watcher | None], Awaitable[Done]]


class BlockTranslator:
    """Translates blocks with ``translator``.

    A line that cannot be translated ends the job, or with ``skip`` is left empty. With ``alone``,
    only one block is decoded at a time, in the order of the calls, while the next is prepared.
    """

    def __init__(
        self,
        translator: Translator,
        pair: LanguagePair,
        rows: Format,
        decoding: DecodingOverrides,
        *,
        skip: bool,
        alone: bool,
    ) -> None:
        self._translator = translator
        self._pair = pair
        self._rows = rows
        self._decoding = decoding
        self._skip = skip
        self._turn = asyncio.Lock() if alone else None

    async def __call__(self, block: Block, watcher: Watcher | None = None) -> Done:
        """Translate a block. Failures of a line or a model are in ``Done.failure``, not raised."""
        problems = {n: row.problem for n, row in enumerate(block.rows) if row.problem is not None}
        try:
            try:
                return await self._translated(block, problems, watcher)
            except SentenceTooLong:
                too_long = await self._translator.too_long(self._request(_texts(block, problems)))
                numbers = _wanted(block, problems)
                problems |= {numbers[n]: str(error) for n, error in too_long.items()}
                return await self._translated(block, problems, watcher)
        except (TranslationError, EngineError) as error:
            first, last = block.number(0), block.number(len(block.rows) - 1)
            failure = BlockFailed(f"lines {first} to {last}: {error}")
            return Done(b"", 0, failure=failure)

    async def _translated(
        self, block: Block, problems: dict[int, str], watcher: Watcher | None
    ) -> Done:
        count, failure = len(block.rows), None
        if problems and not self._skip:
            count = min(problems)
            failure = BadLine(block.number(count), problems[count])
        wanted = [n for n in _wanted(block, problems) if n < count]
        # Longest first, so that the sentences that run in a nearly empty batch are short.
        wanted.sort(key=lambda n: -len(block.rows[n].text))
        request = self._request([block.rows[n].text for n in wanted])
        deliver = None if watcher is None else lambda _: watcher.decoded()
        translations = await self._translator.translate(request, deliver, self._turn)
        texts = ["" if n in problems else row.text for n, row in enumerate(block.rows[:count])]
        for n, translation in zip(wanted, translations, strict=True):
            texts[n] = translation.text
        pairs = zip(block.rows, texts, strict=False)
        lines = [self._rows.write(row, text) for row, text in pairs]
        both = sorted(zip(wanted, translations, strict=True), key=lambda pair: pair[0])
        return Done(
            content=block.header + b"".join(lines),
            rows=count,
            sentences=sum(len(leg.sentences) for t in translations for leg in t.legs[:1]),
            cut=tuple(block.number(n) for n, translation in both if translation.truncated),
            skipped=tuple(block.number(n) for n in sorted(problems)) if self._skip else (),
            failure=failure,
        )

    def _request(self, texts: list[str]) -> TranslateRequest:
        return TranslateRequest(
            tuple(texts),
            self._pair.target,
            self._pair.source,
            decoding=self._decoding,
            priority="bulk",
        )


def _wanted(block: Block, problems: dict[int, str]) -> list[int]:
    """Indices of the rows with text to translate."""
    return [n for n, row in enumerate(block.rows) if n not in problems and row.text.strip()]


def _texts(block: Block, problems: dict[int, str]) -> list[str]:
    return [block.rows[n].text for n in _wanted(block, problems)]
