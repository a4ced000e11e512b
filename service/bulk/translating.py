"""Translates the rows of a block as a single request, longest texts first.

The texts of a block are always decoded together. Batch composition changes a translation by
rounding only, but rounding can decide between two hypotheses of equal score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from service.bulk.reading import BadLine, Block
from service.bulk.rows import Format, Row
from service.engine.errors import EngineError, SentenceTooLong
from service.engine.types import Origin
from service.text.errors import TranslationError
from service.text.types import LanguagePair
from service.translation.decoding import DecodingOverrides
from service.translation.types import Part, TranslateRequest


class BlockFailed(Exception):
    """A block could not be translated, for a reason not related to a single line."""


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


@dataclass(frozen=True, slots=True)
class TranslatedRows:
    """The texts of consecutive rows; a row that cannot be translated has an empty text."""

    texts: list[str]
    problems: dict[int, str]
    """Reasons why rows cannot be translated, by index."""
    cut: tuple[int, ...]
    """Indices of the rows whose translation was truncated."""
    sentences: int


class TranslatedText(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def truncated(self) -> bool:
        """Whether a sentence was cut at its longest length."""
        ...

    @property
    def sentence_count(self) -> int: ...


class TextTranslator(Protocol):
    """Translates the texts of a request, such as a ``LocalTranslator``."""

    async def translate(
        self,
        request: TranslateRequest,
        deliver: Callable[[Part], None] | None = None,
        *,
        origin: Origin,
        block_lock: AbstractAsyncContextManager[None] | None = None,
    ) -> Sequence[TranslatedText]:
        """See ``LocalTranslator.translate``."""
        ...

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """See ``Translator.too_long``."""
        ...


Report = Callable[[], None]
"""Called about once for each translated sentence of a block."""
TranslateBlock = Callable[[Block, Report | None], Awaitable[Done]]


class BlockTranslator:
    """Translates blocks with ``translator``.

    A line that cannot be translated ends the job, or with ``skip`` is left empty. With ``alone``,
    only one block is decoded at a time, in the order of the calls, while the next is prepared.
    """

    def __init__(
        self,
        translator: TextTranslator,
        pair: LanguagePair,
        rows: Format,
        decoding: DecodingOverrides,
        *,
        model: str | None = None,
        skip: bool,
        alone: bool,
    ) -> None:
        self._translator = translator
        self._pair = pair
        self._rows = rows
        self._decoding = decoding
        self._model = model
        self._skip = skip
        self._lock = asyncio.Lock() if alone else None

    async def __call__(self, block: Block, report: Report | None = None) -> Done:
        """Translate a block. Failures of a line or a model are in ``Done.failure``, not raised."""
        try:
            found = await self.rows(block.rows, report)
        except (TranslationError, EngineError) as error:
            first, last = block.number(0), block.number(len(block.rows) - 1)
            failure = BlockFailed(f"lines {first} to {last}: {error}")
            return Done(block.header, 0, failure=failure)
        lines = map(self._rows.write, block.rows[: len(found.texts)], found.texts)
        failed = None
        if len(found.texts) < len(block.rows):
            number = len(found.texts)
            failed = BadLine(block.number(number), found.problems[number])
        return Done(
            content=block.header + b"".join(lines),
            rows=len(found.texts),
            sentences=found.sentences,
            cut=tuple(map(block.number, found.cut)),
            skipped=tuple(map(block.number, sorted(found.problems))) if self._skip else (),
            failure=failed,
        )

    async def rows(self, rows: Sequence[Row], report: Report | None = None) -> TranslatedRows:
        """Translate rows as one request; without ``skip``, only those before the first problem.

        Raises a ``TranslationError`` or an ``EngineError`` that is not about a single row.
        """
        problems = {n: row.problem for n, row in enumerate(rows) if row.problem is not None}
        while True:
            try:
                return await self._translated(rows, problems, report)
            except SentenceTooLong:
                wanted = _wanted(rows, problems)
                request = self._request([rows[n].text for n in wanted])
                too_long = await self._translator.too_long(request)
                found = {wanted[n]: str(error) for n, error in too_long.items()}
                found = found or await self._grown(rows, wanted)
                if not found:
                    raise
                problems |= found

    async def _grown(self, rows: Sequence[Row], wanted: Sequence[int]) -> dict[int, str]:
        """Problems of the rows of ``wanted`` with a word that the first model of a pivot makes too
        long for the second one, found by halves."""
        request = self._request([rows[n].text for n in wanted])
        try:
            await self._translator.translate(request, origin=Origin("bulk"), block_lock=self._lock)
        except SentenceTooLong as error:
            if len(wanted) == 1:
                return {wanted[0]: str(error)}
            half = len(wanted) // 2
            found = await self._grown(rows, wanted[:half])
            return found | await self._grown(rows, wanted[half:])
        return {}

    async def _translated(
        self, rows: Sequence[Row], problems: dict[int, str], report: Report | None
    ) -> TranslatedRows:
        if problems and not self._skip:
            rows = rows[: min(problems)]
        # Longest first, so that the sentences that run in a nearly empty batch are short.
        wanted = sorted(_wanted(rows, problems), key=lambda n: -len(rows[n].text))
        request = self._request([rows[n].text for n in wanted])
        deliver = None if report is None else lambda _: report()
        translations = await self._translator.translate(
            request, deliver, origin=Origin("bulk"), block_lock=self._lock
        )
        texts = ["" if n in problems else row.text for n, row in enumerate(rows)]
        for n, translation in zip(wanted, translations, strict=True):
            texts[n] = translation.text
        pairs = zip(wanted, translations, strict=True)
        return TranslatedRows(
            texts,
            problems,
            cut=tuple(sorted(n for n, translation in pairs if translation.truncated)),
            sentences=sum(translation.sentence_count for translation in translations),
        )

    def _request(self, texts: list[str]) -> TranslateRequest:
        return TranslateRequest(
            tuple(texts),
            self._pair.target,
            self._pair.source,
            self._model,
            self._decoding,
        )


def _wanted(rows: Sequence[Row], problems: dict[int, str]) -> list[int]:
    """Indices of the rows with text to translate."""
    return [n for n, row in enumerate(rows) if n not in problems and row.text.strip()]
