"""Base of small dialects: reading, translating, and refusals in a dialect's own shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import Any, Protocol

from fastapi import Request, Response

from service.api.access import Caller
from service.api.error_bodies import ErrorBody
from service.api.errors import (
    EXPECTED,
    KeyInvalid,
    KeyMissing,
    headers_of,
    message_of,
    refusal_of,
)
from service.api.fields.parameters import Dialect, Fields
from service.api.fields.schemas import Answer
from service.api.metering import MeteredTranslator
from service.api.middleware import facts_of
from service.api.readings import Reading, Readings
from service.api.responses import Json, refusals
from service.catalogue.catalogue import Catalogue, Side
from service.translation.types import TranslateRequest, Translation

Endpoint = Callable[[Request], Awaitable[Response]]

AUTO = "auto"
"""Source value that requests language detection."""
UNAUTHORISED: Mapping[type[Exception], int] = MappingProxyType({KeyMissing: 401, KeyInvalid: 401})
"""Statuses of dialects that answer 401 without a valid key."""
_SCRIPTS = {"zh-tw": "zh-Hant", "zh-hk": "zh-Hant"}
"""Codes of Chinese by region, and their script."""


def fields_with_key(
    name: str, *, any_type: bool = False, lists: frozenset[str] = frozenset()
) -> Dialect:
    """How clients of a small dialect send fields; ``name`` is that of the API key."""
    return Dialect(
        name,
        missing=lambda each: f"{each} is missing",
        invalid=lambda each, first: f"{each} is wrong: {first['msg']}",
        any_type=any_type,
        lists=lists,
    )


class Translating(Protocol):
    """Fields of a request that is translated."""

    def request(self, catalogue: Catalogue) -> TranslateRequest: ...


@dataclass(frozen=True, slots=True)
class SmallDialect:
    fields: Dialect
    body: ErrorBody
    error: type[Answer]
    """Documents ``body``."""
    statuses: Mapping[type[Exception], int] = field(default_factory=dict)
    """Statuses that differ from those in ``service.api.errors``."""

    def refusals(self, *statuses: int) -> dict[int | str, dict[str, Any]]:
        """The ``responses`` of a route: these statuses, and those that any request may get."""
        documented = sorted({*statuses, 400, 408, 413, 429, 500, 503})
        return refusals(*documented, shape=self.error)

    def refusing(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, which answers expected errors in the shape of the dialect."""

        @wraps(endpoint)
        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except EXPECTED as error:
                facts_of(request).refusal = refusal_of(error)
                status = self.statuses.get(type(error), refusal_of(error).status)
                body = self.body(status, message_of(error))
                return Json(body, status, headers=headers_of(error))

        return answer

    async def translated(
        self,
        request: Request,
        model: type[Any],
        metered: MeteredTranslator,
        readings: Readings,
    ) -> tuple[Any, list[Translation]]:
        """The fields of a request, as a ``model`` that is ``Translating``, and the translations."""

        async def parse(fields: Fields, _: Caller, catalogue: Catalogue) -> Reading[Translating]:
            parameters: Translating = fields.parse(model)
            return Reading(fields.key, parameters, parameters.request(catalogue), "interactive")

        caller, reading = await readings.read(request, self.fields, parse)
        return reading.parameters, await metered.translate(request, caller, reading)


def language_of(code: str, catalogue: Catalogue, side: Side) -> str:
    """The code on offer for one that a dialect spells its own way; raises ``UnknownLanguage``.

    Dialects write ``de_DE``, ``EN-US``, ``zh-TW``. A region that is not on offer is its language.
    """
    spelled = code.strip().replace("_", "-")
    spelled = _SCRIPTS.get(spelled.lower(), spelled)
    return catalogue.language(spelled, side)


def source_of(code: str | None, catalogue: Catalogue) -> str | None:
    """The source language that a client names; ``None`` requests language detection."""
    return None if code is None or code.lower() == AUTO else language_of(code, catalogue, "sources")
