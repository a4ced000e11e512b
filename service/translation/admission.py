"""How much the service takes on: source tokens accepted and not yet translated, over all requests.

Where a request asks for more work than its bundle's own decoding is, its tokens count as many as
that would be, see ``DecodingOverrides.work``. Whoever does not fit is refused at once and by name.
Belongs to the event loop.
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
        """Spares whoever cannot be admitted anyway the work of being measured."""
        if self._taken >= self._capacity:
            raise Overloaded

    @contextmanager
    def admitted(self, tokens: int) -> Iterator[None]:
        """Hold room for ``tokens``; raises ``Overloaded``, or ``TextTooLarge`` if it never fits."""
        if tokens > self._capacity:
            raise TextTooLarge(tokens, self._capacity)
        if self._taken + tokens > self._capacity:
            raise Overloaded
        self._taken += tokens
        try:
            yield
        finally:
            self._taken -= tokens
