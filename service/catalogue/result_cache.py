"""Per-model LRU cache of translations with request coalescing.

A call for a sentence that is already being decoded waits for the same result. Decoding is
cancelled once all waiting calls are cancelled. Neither changes a translation, because batch
composition does not affect decoding. Sampled results are not kept. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from service.engine.types import Decoded, DecodingOptions, Durations, Origin, Priority
from service.threads.time_slices import TimeSlices

Lookup = Literal["hit", "miss", "coalesced"]
Decode = Callable[[tuple[int, ...], DecodingOptions, Origin], Awaitable[Decoded]]
SourceSentence = tuple[tuple[int, ...], DecodingOptions]
"""Source ids, as ``DirectedModel`` describes them, and the options of their search."""
DeliverDecoded = Callable[[int, Decoded], None]
"""Callback for a decoded sentence: its number in the call, its result. Called on the event loop."""

_Question = tuple[tuple[int, ...], DecodingOptions, str]
"""Token ids, options, and the scope within which results are shared."""

_MOST_RUNNING = 2_048
"""Sentences of one call that are decoded at a time: several times the slots of an engine, which
chooses among the sentences that wait."""
_BYTES_PER_ENTRY = 1_500
_BYTES_PER_SEQUENCE = 250
_BYTES_PER_TOKEN = 40
"""Memory of a key and its result, measured with tracemalloc and rounded up."""


@dataclass(eq=False, slots=True)
class _Running:
    question: _Question
    priority: Priority
    task: asyncio.Task[Decoded]
    waiting: dict[asyncio.Queue[_Running], None] = field(default_factory=dict)
    """A queue for each call that waits for the result; each gets this object with it."""


class ResultCache:
    """Wraps an engine's ``decode`` and keeps up to ``max_bytes`` of its results."""

    def __init__(
        self, decode: Decode, max_bytes: int = 0, observe: Callable[[Lookup], None] = lambda _: None
    ) -> None:
        self._decode = decode
        self._max_bytes = max_bytes
        self._observe = observe
        self._kept: OrderedDict[_Question, Decoded] = OrderedDict()
        self._bytes = 0
        self._running: dict[tuple[_Question, Priority], _Running] = {}

    def decode_through(self, wrap: Callable[[Decode], Decode]) -> None:
        """Decode by what ``wrap`` makes of the function that decodes."""
        self._decode = wrap(self._decode)

    async def decode(
        self,
        sentences: Sequence[SourceSentence],
        origin: Origin,
        deliver: DeliverDecoded | None = None,
        *,
        at_once: bool = False,
    ) -> list[Decoded]:
        """Decode the sentences of one request, in order; see ``Decoder.decode``.

        A cached result has durations of 0. Needs one task for each sentence that no other call is
        waiting for, and none for others. So that a request of thousands of sentences does not hold
        the event loop, it begins them by and by, and ``_MOST_RUNNING`` at a time. ``at_once``
        begins all in one turn of the event loop.
        """
        questions = [(source_ids, options, origin.scope) for source_ids, options in sentences]
        results: list[Decoded | None] = []
        joined: dict[_Running, list[int]] = {}
        finished: asyncio.Queue[_Running] = asyncio.Queue()
        slices = TimeSlices()

        async def take() -> None:
            """Wait for a result; raises the failure of its decoding."""
            running = await finished.get()
            numbers = joined.pop(running)
            try:
                decoded = running.task.result()
            finally:
                del running
            for number in numbers:
                results[number] = decoded
                if deliver is not None:
                    deliver(number, decoded)

        try:
            for number, question in enumerate(questions):
                known = self._known(question)
                results.append(known)
                if known is None:
                    joined.setdefault(self._join(question, origin, finished), []).append(number)
                elif deliver is not None:
                    deliver(number, known)
                if at_once:
                    continue
                await slices.pause()
                while len(joined) >= _MOST_RUNNING or not finished.empty():
                    await take()
            while joined:
                await take()
                await slices.pause()
            return [decoded for decoded in results if decoded is not None]
        finally:
            # A failure's traceback has this frame: if it had a task, too, only the garbage
            # collector would free both.
            while joined:
                self._leave(joined.popitem()[0], finished)
            while not finished.empty():
                finished.get_nowait()

    def _known(self, question: _Question) -> Decoded | None:
        known = self._kept.get(question)
        if known is not None:
            self._kept.move_to_end(question)
            self._observe("hit")
        return known

    def _join(
        self, question: _Question, origin: Origin, finished: asyncio.Queue[_Running]
    ) -> _Running:
        """The decoding of a sentence, which begins unless it is running, for a call that waits."""
        running = self._running.get((question, origin.priority))
        if running is None:
            self._observe("miss")
            running = self._start(question, origin)
        else:
            self._observe("coalesced")
        running.waiting[finished] = None
        return running

    def _leave(self, running: _Running, finished: asyncio.Queue[_Running]) -> None:
        del running.waiting[finished]
        if not running.waiting and not running.task.done():
            self._forget(running)
            running.task.cancel()

    def _start(self, question: _Question, origin: Origin) -> _Running:
        task: asyncio.Task[Decoded] = asyncio.create_task(_run(self._decode, question, origin))
        running = _Running(question, origin.priority, task)
        self._running[question, origin.priority] = running

        def finish(task: asyncio.Task[Decoded]) -> None:
            self._forget(running)
            # Reading the exception marks it as retrieved: the last waiting call may have been
            # cancelled at the same time, and asyncio would log an unretrieved exception.
            if not task.cancelled() and task.exception() is None:
                self._keep(question, task.result())
            for finished in running.waiting:
                finished.put_nowait(running)

        task.add_done_callback(finish)
        return running

    def _forget(self, running: _Running) -> None:
        if self._running.get((running.question, running.priority)) is running:
            del self._running[running.question, running.priority]

    def _keep(self, question: _Question, decoded: Decoded) -> None:
        size = _size(question, decoded)
        if question[1].samples or size > self._max_bytes or question in self._kept:
            return
        self._kept[question] = replace(decoded, durations=Durations())
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest, forgotten = self._kept.popitem(last=False)
            self._bytes -= _size(oldest, forgotten)


async def _run(decode: Decode, question: _Question, origin: Origin) -> Decoded:
    source_ids, options, _ = question
    return await decode(source_ids, options, origin)


def _size(question: _Question, decoded: Decoded) -> int:
    source_ids, options, _ = question
    sequences = [
        source_ids,
        options.target_prefix,
        *options.suppress_sequences,
        *options.completions,
        *(hypothesis.token_ids for hypothesis in decoded.hypotheses),
    ]
    tokens = sum(map(len, sequences))
    return _BYTES_PER_ENTRY + _BYTES_PER_SEQUENCE * len(sequences) + _BYTES_PER_TOKEN * tokens
