"""Reads translation requests into what decoding needs, and remembers recent short ones.

Parsing and tokenising take about half of the time of a request whose result is cached.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from fastapi import Request

from service.api.access import Caller
from service.api.fields.parameters import JSON, Dialect, Fields, read_fields
from service.catalogue.catalogue import Catalogue
from service.catalogue.errors import NotReady
from service.engine.types import Priority
from service.translation.request_reader import Prepared, WrittenSentences
from service.translation.translator import Offering
from service.translation.types import TranslateRequest

P = TypeVar("P")

MOST_BYTES = 1 << 17
"""Total bytes of the bodies whose readings are kept. What is kept of a body takes 10 to 200 times
as much, the most for a list of texts of one letter each (measured with tracemalloc): 27 MB. Their
written sentences take a token of some 40 bytes for each byte, 5 MB."""
_OTHER_BYTES = 30
"""Bytes that every body has beside its texts."""
_LONGEST_BODY = 1 << 12
"""Bytes of the longest body whose reading is kept."""

Identify = Callable[[Request, str | None], Awaitable[Caller]]
"""Returns the caller, given the value of the request's key field; see ``Access.identify``."""


@dataclass(slots=True)
class Reading(Generic[P]):
    """A parsed request, without its caller."""

    key: str | None = field(repr=False)
    """The API key, if it is in a field."""
    parameters: P
    wanted: TranslateRequest
    priority: Priority
    lasting: bool = True
    """Whether the same body always means the same request, while the models stay."""
    characters: tuple[int, ...] = ()
    """The characters of each text to charge for, once they have been counted."""
    prepared: Prepared | None = None
    """Its texts as token ids, once they have been read."""

    def remember(self, prepared: Prepared) -> None:
        """Keep prepared texts, and what is written of them, for requests with the same body."""
        if self.lasting and not prepared.samples:
            size = _OTHER_BYTES + sum(map(len, prepared.request.texts))
            self.prepared = replace(prepared, seconds=0.0, written=WrittenSentences(size))


class Readings:
    """Event loop only. Readings of the current catalogue, least recently used evicted first."""

    def __init__(self, models: Offering, identify: Identify, max_bytes: int) -> None:
        """``max_bytes`` bounds the bodies of the readings that are kept; 0 keeps none."""
        self._models = models
        self._identify = identify
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[Dialect, bytes], Reading[Any]] = OrderedDict()
        self._bytes = 0
        self._catalogue: Callable[[], Catalogue | None] = lambda: None

    async def read(
        self,
        request: Request,
        dialect: Dialect,
        parse: Callable[[Fields, Caller, Catalogue], Awaitable[Reading[P]]],
    ) -> tuple[Caller, Reading[P]]:
        """The caller of a request, and the request as ``parse`` reads its fields.

        Raises what ``read_fields``, ``identify`` and ``parse`` raise, and ``NotReady``.
        """
        body = await self._short_json_body(request)
        reading = None if body is None else self._get(dialect, body)
        if reading is not None:
            return await self._identify(request, reading.key), reading
        fields = await read_fields(request, dialect)
        caller = await self._identify(request, fields.key)
        reading = await parse(fields, caller, self._models.catalogue)
        if body is not None and reading.lasting:
            self._keep(dialect, body, reading)
        return caller, reading

    async def _short_json_body(self, request: Request) -> bytes | None:
        """The body of a request that a reading may be kept of."""
        if self._max_bytes == 0 or request.scope["query_string"]:
            return None
        content_types = request.headers.getlist("content-type")
        if content_types != [JSON] or "content-encoding" in request.headers:
            return None
        body = await request.body()
        return body if len(body) <= min(self._max_bytes, _LONGEST_BODY) else None

    def _get(self, dialect: Dialect, body: bytes) -> Reading[Any] | None:
        try:
            current = self._models.catalogue
        except NotReady:
            return None
        if self._catalogue() is not current:
            self._forget_all()
            # Readings refer to models, which must not outlive the catalogue that offers them.
            self._catalogue = weakref.ref(current, self._forget_all)
        reading = self._kept.get((dialect, body))
        if reading is not None:
            self._kept.move_to_end((dialect, body))
            if reading.prepared is not None and not reading.prepared.alive:
                # Another model may translate the pair.
                reading.prepared = None
        return reading

    def _keep(self, dialect: Dialect, body: bytes, reading: Reading[Any]) -> None:
        if (dialect, body) in self._kept:
            # An equal request at the same time was faster.
            return
        self._bytes += len(body)
        self._kept[dialect, body] = reading
        while self._bytes > self._max_bytes:
            (_, forgotten), _ = self._kept.popitem(last=False)
            self._bytes -= len(forgotten)

    def _forget_all(self, _: object = None) -> None:
        self._kept.clear()
        self._bytes = 0
