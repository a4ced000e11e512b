"""How many requests a caller sends in a minute. Kept in memory; knows no keys and no addresses.

The window moves: at no time lie more requests than allowed within the last sixty seconds. Two
things set it apart from the usual libraries, whose windows in memory keep every address ever seen
and are swept by a thread that competes with the engine's: it needs no thread, and what it
remembers is bounded.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from service.state.errors import RateLimited

_WINDOW_SECONDS = 60.0
_MOST_CALLERS = 10_000
"""When more are seen within a minute, those who have been quiet for longest are forgotten."""


class RateLimits:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most_callers: int = _MOST_CALLERS
    ) -> None:
        self._clock = clock
        self._most_callers = most_callers
        self._admitted: OrderedDict[str, deque[float]] = OrderedDict()
        """When, for each caller; whoever was admitted last comes last."""

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._admitted)

    def hit(self, caller: str, per_minute: int) -> None:
        """Count a request, or raise ``RateLimited`` and do not; 0 is unlimited."""
        if not per_minute:
            return
        now = self._clock()
        times = self._admitted.get(caller, deque())
        while times and times[0] <= now - _WINDOW_SECONDS:
            times.popleft()
        if len(times) >= per_minute:
            # A limit may have been lowered; then more than one has to leave the window.
            wait = times[len(times) - per_minute] + _WINDOW_SECONDS - now
            raise RateLimited(per_minute, max(1, math.ceil(wait)))
        times.append(now)
        self._admitted[caller] = times
        self._admitted.move_to_end(caller)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop whoever has nothing left in the window, and the quietest if there are too many."""
        while True:
            caller, times = next(iter(self._admitted.items()))
            if len(self._admitted) <= self._most_callers and times[-1] > now - _WINDOW_SECONDS:
                return
            del self._admitted[caller]
