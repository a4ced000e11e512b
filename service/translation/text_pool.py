"""Bounded pool of threads that prepares long texts, cancellable between sentences.

Short texts are processed on the event loop, because a thread costs more than they do. The pool is
separate from asyncio's default pool, so that long texts delay neither files nor reloads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.threads.fair_turns import FairTurns
from service.threads.thread_priority import lower_thread_priority
from service.translation.errors import Overloaded

T = TypeVar("T")
Check = Callable[[], None]
"""Raises ``Abandoned`` if the result is no longer wanted. Cheap: called for every sentence."""

_CHARACTERS_ON_THE_LOOP = 4_000
"""Splitting and tokenising this much takes a few milliseconds. The worst case is sentences of one
character each: 50 ms, and 80 with sampling, of one core of an AMD EPYC (Zen 3)."""
_CHARACTERS_PER_TEXT = 20
"""Fixed cost of a text, in characters."""


class Abandoned(Exception):
    """The call that wanted the result was cancelled or exceeded its deadline."""


def unchecked() -> None:
    """A ``Check`` that never raises."""


class TextPool:
    """At most ``threads`` calls run and ``waiting`` calls wait; more raise ``Overloaded``.

    Callers share the threads, see ``service.threads.fair_turns``.
    """

    def __init__(self, threads: int = 2, waiting: int = 256) -> None:
        self._turns = FairTurns(threads)
        self._executor = ThreadPoolExecutor(threads, "text", initializer=lower_thread_priority)
        self._calls = 0
        self._most_calls = threads + waiting

    async def run(
        self,
        texts: Sequence[str],
        work: Callable[[Check], T],
        extra: int = 0,
        caller: str | None = None,
    ) -> T:
        """The result of ``work``, which runs in a thread if ``texts`` are long.

        ``extra`` counts further characters that are processed. Cancelling the call ends ``work``
        at its next check.
        """
        size = sum(map(len, texts)) + _CHARACTERS_PER_TEXT * len(texts) + extra
        if size <= _CHARACTERS_ON_THE_LOOP:
            return work(unchecked)
        if self._calls >= self._most_calls:
            raise Overloaded
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise Abandoned

        self._calls += 1
        try:
            async with self._turns.turn(caller):
                return await asyncio.wrap_future(self._executor.submit(work, check))
        finally:
            abandoned.set()
            self._calls -= 1
