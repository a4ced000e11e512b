"""LRU cache of parsed and tokenised short requests, by path and body.

Parsing and tokenising take about half of the time of a request whose result is cached.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from service.translation.catalogue import Catalogue
from service.translation.plain import PreparedRequest
from service.translation.types import TranslateRequest, Translation

MOST_BYTES, _MOST_BYTES_EACH = 1 << 17, 1 << 12
"""Of the bodies. What is kept of a body takes 10 to 200 times as much, the most for a list of texts
of one letter each (measured with tracemalloc): 27 MB at worst."""

_Question = tuple[str, bytes]
"""Path and body of a request."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A parsed request, prepared unless this is its first time."""

    key: str | None = field(repr=False)
    """The API key, if it is in a field."""
    wanted: TranslateRequest
    """Without a caller."""
    answer: Callable[[list[Translation], float], bytes]
    prepared: PreparedRequest | None = None

    def prepared_for(self, wanted: TranslateRequest) -> PreparedRequest | None:
        """The prepared request on behalf of the caller of ``wanted``.

        ``None`` if it has to be prepared, as after the death of the engine that was to decode it.
        """
        found = self.prepared
        if found is None or not found.directed.model.engine.alive:
            return None
        decode = replace(found.decode, cache_scope=wanted.cache_scope, caller=wanted.caller)
        return replace(found, decode=decode, seconds=0.0)


class RecentReadings:
    """The readings of one catalogue, the least recently used forgotten first. Event loop only."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes`` is of the bodies; 0 keeps none."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[_Question, Reading] = OrderedDict()
        self._bytes = 0
        self._catalogue: Callable[[], Catalogue | None] = lambda: None

    def get(self, catalogue: Catalogue, question: _Question) -> Reading | None:
        if self._catalogue() is not catalogue:
            return None
        reading = self._kept.get(question)
        if reading is not None:
            self._kept.move_to_end(question)
        return reading

    def keep(self, catalogue: Catalogue, question: _Question, reading: Reading) -> None:
        """Keep a prepared reading, unless it draws random numbers or is long."""
        prepared, size = reading.prepared, len(question[1])
        assert prepared is not None
        sampled = any(options.samples for _, options in prepared.decode.sentences)
        if sampled or size > min(self._max_bytes, _MOST_BYTES_EACH):
            return
        if self._catalogue() is not catalogue:
            self._forget_all()
            # Readings refer to models, which must not outlive the catalogue that offers them.
            self._catalogue = weakref.ref(catalogue, self._forget_all)
        self._bytes += 0 if question in self._kept else size
        self._kept[question] = reading
        while self._bytes > self._max_bytes:
            (_, body), _ = self._kept.popitem(last=False)
            self._bytes -= len(body)

    def _forget_all(self, _: object = None) -> None:
        self._kept.clear()
        self._bytes = 0
