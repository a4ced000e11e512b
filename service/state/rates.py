"""In-memory sliding-window rate limiter per caller. Independent of keys and addresses.

No sixty seconds contain more requests of a caller than allowed. Memory is bounded, and no thread is
needed. The usual in-memory libraries keep every address ever seen, and sweep them in a thread that
competes with the engine's.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from service.state.errors import RateLimited

_WINDOW_SECONDS = 60.0
_MOST_CALLERS = 10_000
"""Number of remembered callers, above which the least recently admitted ones are evicted."""


class RateLimits:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most_callers: int = _MOST_CALLERS
    ) -> None:
        self._clock = clock
        self._most_callers = most_callers
        self._admitted: OrderedDict[str, deque[float]] = OrderedDict()
        """Times of admission per caller; the most recently admitted caller comes last."""

    def __len__(self) -> int:
        """The number of tracked callers."""
        return len(self._admitted)

    def hit(self, caller: str, per_minute: int) -> None:
        """Count a request, or raise ``RateLimited`` without counting it; 0 is unlimited."""
        if not per_minute:
            return
        now = self._clock()
        times = self._admitted.get(caller, deque())
        while times and times[0] <= now - _WINDOW_SECONDS:
            times.popleft()
        if len(times) >= per_minute:
            # If the limit was lowered, more than one request has to expire first.
            wait = times[len(times) - per_minute] + _WINDOW_SECONDS - now
            raise RateLimited(per_minute, max(1, math.ceil(wait)))
        times.append(now)
        self._admitted[caller] = times
        self._admitted.move_to_end(caller)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Evict callers without requests in the window, and the oldest ones above the bound."""
        while True:
            caller, times = next(iter(self._admitted.items()))
            if len(self._admitted) <= self._most_callers and times[-1] > now - _WINDOW_SECONDS:
                return
            del self._admitted[caller]
