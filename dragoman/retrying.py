"""Whether to try again, and after how long. Knows no HTTP, reads no clock, sleeps not itself."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.errors import DeadlinePassed, DragomanError


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried again, and how patiently: exponential backoff with full jitter."""

    limit: int = 5
    """At most so many times; 0 never."""
    base: float = 0.5
    """Seconds; the longest first pause. It doubles with each."""
    longest: float = 8.0
    """Seconds; no pause is drawn from more than this, on top of what the service asks for."""
    draw: Callable[[], float] = field(default=random.random, repr=False)
    """Evenly from 0 to 1."""

    def __post_init__(self) -> None:
        if self.limit < 0 or self.base < 0 or self.longest < 0:
            raise ValueError("limit, base and longest of Retries cannot be negative")

    def pause(self, tried: int, error: DragomanError, left: float) -> float | None:
        """Seconds to wait after the attempt number ``tried`` (from 0); ``None`` is giving up.

        Never shorter than ``error.retry_after``, never as long as the time ``left``.
        """
        asked = error.retry_after or 0.0
        room = left - asked
        if not error.passes or tried >= self.limit or room <= 0:
            return None
        # Half of the room stays for the attempt itself.
        return asked + self.draw() * min(self.longest, self.base * 2.0**tried, room / 2)


class Attempts:
    """Those of one call, which has ``timeout`` seconds for all of them together."""

    def __init__(self, retries: Retries, timeout: float, clock: Callable[[], float]) -> None:
        self._retries = retries
        self._timeout = timeout
        self._clock = clock
        self._ends = clock() + timeout
        self._tried = 0

    @staticmethod
    def maker(
        retries: Retries | int, timeout: float, clock: Callable[[], float]
    ) -> Callable[[], Attempts]:
        """Begins those of a call; raises ``ValueError`` for what cannot be meant."""
        if not 0 < timeout < math.inf:
            raise ValueError("timeout is a number of seconds above 0")
        policy = retries if isinstance(retries, Retries) else Retries(retries)
        return lambda: Attempts(policy, timeout, clock)

    def left(self) -> float:
        """Seconds, more than 0; raises ``DeadlinePassed``."""
        left = self._ends - self._clock()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> DeadlinePassed:
        return DeadlinePassed(
            f"no answer within {self._timeout:g} seconds; give the client a longer timeout"
        )

    def pause(self, error: DragomanError) -> float:
        """Seconds to wait before the next attempt; raises ``error`` if there is to be none."""
        pause = self._retries.pause(self._tried, error, self._ends - self._clock())
        if pause is None:
            raise error
        self._tried += 1
        return pause
