"""Admission control by source tokens accepted and not yet translated, over all requests.

Tokens of requests that override decoding are weighted by the work, see
``DecodingOverrides.work``. A request that does not fit is refused at once. A small request of a
caller that has little in flight is admitted beyond the capacity, up to twice of it, so that one
caller cannot fill the service for all. Queues of requests use it with one token for each. Event
loop only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from service.translation.errors import Overloaded, TextTooLarge

_LITTLE = 8
"""The part of the capacity that is little is one in this many."""


class Admission:
    def __init__(self, max_tokens: int) -> None:
        self._capacity = max_tokens
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

    @contextmanager
    def admitted(self, tokens: int, caller: str = "") -> Iterator[None]:
        """Reserve ``tokens``; raises ``Overloaded``, or ``TextTooLarge`` above the capacity.

        An unknown caller, which is empty, has no share of its own.
        """
        if tokens > self._capacity:
            raise TextTooLarge(tokens, self._capacity)
        self._refuse_unless_free(tokens, caller)
        self._taken += tokens
        self._taken_by[caller] += tokens
        try:
            yield
        finally:
            self._taken -= tokens
            self._taken_by[caller] -= tokens
            if not self._taken_by[caller]:
                del self._taken_by[caller]

    def _refuse_unless_free(self, tokens: int, caller: str) -> None:
        if self._taken + tokens <= self._capacity:
            return
        little = self._taken_by[caller] + tokens <= self._capacity // _LITTLE
        if not (caller and little and self._taken + tokens <= 2 * self._capacity):
            raise Overloaded
