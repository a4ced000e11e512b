"""Expected wait of a request, from the work in flight and the measured rate of finished work.

The waiting queue serves requests in turns (``service.engine.waiting_queue``), so a request waits
for as much of every other one as it has itself: a sentence for a sentence of a long document. Work
is in the tokens of ``Admission``. Event loop only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from service.engine.types import Priority

BUSY = 256
"""Tokens from which the rate is measured, because fewer do not fill a batch. As long as fewer are
in flight a request is admitted, without which a rate that is too low would stay so."""
_MEMORY_SECONDS = 10.0
"""Time constant of the rate, of seconds in which so much was being decoded."""
_FIRST_RATE, _FIRST_SECONDS = 8_192.0, 0.05
"""Tokens per second that are assumed at the start, as if measured for so long: briefly, because a
replica that shares a core with others may be thirty times slower."""
_SLOWDOWN = 4.0
"""A request may take so many times as long as alone, and the permitted wait."""
_SIZES = 64


class Note(Protocol):
    """Notes that so many tokens of a request are finished."""

    def __call__(self, tokens: float, decoded: bool = True) -> None:
        """``decoded`` is false if their results were known."""


class _Sizes:
    """Requests in flight, by the number of bits of their tokens."""

    def __init__(self) -> None:
        self._counts = [0] * _SIZES
        self._totals = [0] * _SIZES
        self.tokens = 0

    def add(self, tokens: int, sign: int = 1) -> None:
        size = tokens.bit_length()
        self._counts[size] += sign
        self._totals[size] += sign * tokens
        self.tokens += sign * tokens

    @property
    def usual(self) -> int:
        """Mean tokens of the most frequent size; 0 without requests."""
        most = max(self._counts)
        return self._totals[self._counts.index(most)] // most if most else 0

    def up_to(self, tokens: int) -> int:
        """Sum over the requests of their tokens, each up to ``tokens``."""
        size = tokens.bit_length()
        alike = min(self._totals[size], self._counts[size] * tokens)
        return sum(self._totals[:size]) + alike + tokens * sum(self._counts[size + 1 :])


class ExpectedWait:
    def __init__(
        self, seconds: dict[Priority, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``seconds`` are the longest permitted waits."""
        self._seconds = seconds
        self._clock = clock
        self._sizes: dict[Priority, _Sizes] = {"interactive": _Sizes(), "bulk": _Sizes()}
        self._finished = _FIRST_RATE * _FIRST_SECONDS
        self._busy = _FIRST_SECONDS
        """Seconds in which ``_finished`` were finished, both decayed."""
        self._decoding = 0.0
        """Tokens in flight without those whose results were known."""
        self._since = clock()

    @property
    def rate(self) -> float:
        """Tokens per second, while there is work for a batch."""
        return self._finished / self._busy

    def capacity(self, priority: Priority) -> float:
        """Tokens that can be finished in the longest permitted wait."""
        return self.rate * self._seconds[priority]

    @contextmanager
    def counted(self, tokens: int, priority: Priority) -> Iterator[Note]:
        """Count a request as in flight inside the context."""
        left = float(tokens)

        def note(tokens: float, decoded: bool = True) -> None:
            nonlocal left
            busy = self._measure()
            if not decoded:
                self._decoding -= tokens
                left -= tokens
            elif busy:
                self._finished += tokens

        self._measure()
        self._sizes[priority].add(tokens)
        self._decoding += tokens
        try:
            yield note
        finally:
            self._measure()
            self._sizes[priority].add(tokens, -1)
            self._decoding -= left

    def excess(self, tokens: int, priority: Priority, share: float) -> float:
        """Seconds by which a request would exceed its permitted time; not positive if it may come.

        ``share`` is the part of the permitted wait. Requests for no tokens are of the usual size.
        """
        if self._in_flight < BUSY:
            return 0.0
        interactive, bulk = self._sizes["interactive"], self._sizes["bulk"]
        if not tokens:
            tokens = interactive.usual or bulk.usual
        ahead = interactive.up_to(tokens)
        if priority == "bulk":
            ahead += bulk.up_to(tokens)
        permitted = self._seconds[priority] * share + _SLOWDOWN * tokens / self.rate
        return ahead / self.rate - permitted

    @property
    def _in_flight(self) -> int:
        return self._sizes["interactive"].tokens + self._sizes["bulk"].tokens

    def _measure(self) -> bool:
        """Count the time since the last call if there was work for a batch; returns whether."""
        now = self._clock()
        # A process that was stopped says nothing about its speed.
        passed, self._since = min(now - self._since, _MEMORY_SECONDS), now
        if self._decoding < BUSY:
            return False
        kept = math.exp(-passed / _MEMORY_SECONDS)
        self._finished *= kept
        self._busy = self._busy * kept + passed
        return True
