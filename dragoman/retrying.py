"""Retry policy: exponential backoff with full jitter. Independent of HTTP; never sleeps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.errors import DeadlinePassed, DragomanError


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of retries and range of pauses: exponential backoff with full jitter."""

    limit: int = 5
    """Most retries of a call; 0 disables them."""
    base: float = 0.5
    """Seconds; bound of the first pause. Doubles with each retry."""
    longest: float = 8.0
    """Seconds; bound of every pause, in addition to ``Retry-After``."""
    draw: Callable[[], float] = field(default=random.random, repr=False)
    """Uniform random number from 0 to 1."""

    def __post_init__(self) -> None:
        if self.limit < 0 or self.base < 0 or self.longest < 0:
            raise ValueError("limit, base and longest of Retries cannot be negative")

    def pause(self, tried: int, error: DragomanError, left: float) -> float | None:
        """Seconds to wait after attempt number ``tried`` (from 0); ``None`` gives up.

        At least ``error.retry_after``, and always shorter than ``left``, in seconds.
        """
        asked = error.retry_after or 0.0
        room = left - asked
        if not error.passes or tried >= self.limit or room <= 0:
            return None
        # Keep half of the remaining time for the attempt itself.
        return asked + self.draw() * min(self.longest, self.base * 2.0**tried, room / 2)


class Attempts:
    """The attempts of one call, with ``timeout`` seconds for all of them together."""

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
        """A factory of attempts for each call; raises ``ValueError`` for invalid arguments."""
        if not 0 < timeout < math.inf:
            raise ValueError("timeout is a number of seconds above 0")
        policy = retries if isinstance(retries, Retries) else Retries(retries)
        return lambda: Attempts(policy, timeout, clock)

    def left(self) -> float:
        """Remaining seconds, above 0; raises ``DeadlinePassed``."""
        left = self._ends - self._clock()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> DeadlinePassed:
        return DeadlinePassed(
            f"no answer within {self._timeout:g} seconds; give the client a longer timeout"
        )

    def pause(self, error: DragomanError) -> float:
        """Seconds to wait before the next attempt; raises ``error`` to give up."""
        pause = self._retries.pause(self._tried, error, self._ends - self._clock())
        if pause is None:
            raise error
        self._tried += 1
        return pause
