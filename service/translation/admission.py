"""Admission control by source tokens accepted and not yet translated, over all requests.

Tokens of requests that override decoding are weighted by the work, see
``DecodingOverrides.work``. A request that does not fit is refused at once. Event loop only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.translation.errors import Overloaded, TextTooLarge


class Admission:
    def __init__(self, max_tokens: int) -> None:
        self._capacity = max_tokens
        self._taken = 0

    @property
    def in_flight(self) -> int:
        """Source tokens accepted and not yet translated."""
        return self._taken

    def refuse_if_full(self) -> None:
        """Raise ``Overloaded`` if full, before a request is tokenised to measure it."""
        if self._taken >= self._capacity:
            raise Overloaded

    @contextmanager
    def admitted(self, tokens: int) -> Iterator[None]:
        """Reserve ``tokens``; raises ``Overloaded``, or ``TextTooLarge`` above the capacity."""
        if tokens > self._capacity:
            raise TextTooLarge(tokens, self._capacity)
        if self._taken + tokens > self._capacity:
            raise Overloaded
        self._taken += tokens
        try:
            yield
        finally:
            self._taken -= tokens
