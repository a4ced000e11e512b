"""Admission control by source tokens accepted and not yet translated, over all requests.

Tokens of requests that override decoding are weighted by the work, see
``DecodingOverrides.work``. A request that does not fit, or would wait too long, is refused at once.
A small request of a caller that has little in flight is admitted beyond the capacity and half of
the longest wait, up to twice of them, so that one caller cannot fill the service for all. Queues of
requests use it with one token for each, and without an expected wait. Event loop only.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from service.engine.types import Priority
from service.translation.errors import Overloaded, TextTooLarge
from service.translation.expected_wait import ExpectedWait, Note

_CHARACTERS_PER_TOKEN = 4
"""Usual ratio in European languages. Where it is less, the exact number of tokens decides later."""
_LITTLE = 8
"""The part of the capacity that is little is one in this many."""


class Admission:
    def __init__(self, max_tokens: int, expected: ExpectedWait | None = None) -> None:
        self._capacity = max_tokens
        self._expected = expected
        self._taken = 0
        self._taken_by: Counter[str] = Counter()
        """Tokens in flight, by caller."""

    @property
    def in_flight(self) -> int:
        """Source tokens accepted and not yet translated."""
        return self._taken

    def refuse_if_full(self, caller: str = "") -> None:
        """Raise ``Overloaded`` if full, before a request is tokenised to measure it."""
        self._refuse_unless_free(1, caller)

    def refuse_if_slow(self, caller: str, priority: Priority, characters: int = 0) -> None:
        """Raise ``Overloaded`` if a request would wait too long, before it is tokenised.

        One of so many characters, or of the usual size.
        """
        self._refuse_long_wait(characters // _CHARACTERS_PER_TOKEN, caller, priority)

    @contextmanager
    def admitted(
        self, tokens: int, caller: str = "", priority: Priority = "interactive"
    ) -> Iterator[Note]:
        """Reserve ``tokens``; yields a function that notes how much of them has been finished.

        Raises ``Overloaded``, or ``TextTooLarge`` above the capacity.

        An unknown caller, which is empty, has no share of its own.
        """
        if tokens > self._capacity:
            raise TextTooLarge(tokens, self._capacity)
        self._refuse_unless_free(tokens, caller)
        self._refuse_long_wait(tokens, caller, priority)
        self._taken += tokens
        self._taken_by[caller] += tokens
        counted = self._expected and self._expected.counted(tokens, priority)
        try:
            with counted or nullcontext(_ignore) as note:
                yield note
        finally:
            self._taken -= tokens
            self._taken_by[caller] -= tokens
            if not self._taken_by[caller]:
                del self._taken_by[caller]

    def _refuse_unless_free(self, tokens: int, caller: str) -> None:
        if self._taken + tokens <= self._capacity:
            return
        little = self._has_little(caller, tokens, self._capacity)
        if not (little and self._taken + tokens <= 2 * self._capacity):
            raise Overloaded

    def _refuse_long_wait(self, tokens: int, caller: str, priority: Priority) -> None:
        if self._expected is None:
            return
        little = self._has_little(caller, tokens, int(self._expected.capacity(priority)))
        excess = self._expected.excess(tokens, priority, 1.0 if little else 0.5)
        if excess > 0:
            # Drawn, so that clients which are refused together do not return together.
            raise Overloaded(math.ceil(excess * random.uniform(1, 2)))

    def _has_little(self, caller: str, tokens: int, capacity: int) -> bool:
        return bool(caller) and self._taken_by[caller] + tokens <= capacity // _LITTLE


def _ignore(tokens: float, decoded: bool = True) -> None:
    """A ``Note`` where no wait is expected."""
