"""Route ``POST /translate``: answers at once, or streams sentences."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from service.api.access import Access, Caller
from service.api.errors import EXPECTED, refusal_of
from service.api.libretranslate.answer import TranslateAnswer, answer
from service.api.libretranslate.fields import (
    TranslateParameters,
    translate_parameters,
    translate_schema,
)
from service.api.metering import MeteredTranslator
from service.api.middleware import facts_of
from service.api.parameters import body_of, read_fields
from service.api.responses import Json, refusals
from service.api.streaming import MEDIA_TYPE, Event, EventStream
from service.observability.logging import request_id
from service.translation.repository import ModelRepository
from service.translation.store import TranslationStore
from service.translation.types import Part, TranslateRequest, Translation

_STREAM = (
    'With `stream`: `event: part` with `{"text": i, "translatedText": "…"}`, in order, whose '
    "texts joined are the translation; then `event: done` with what would else have been the "
    'whole answer, or `event: error` with `{"error": "…", "status": n}`.'
)
_EVENT = {
    "type": "object",
    "description": _STREAM,
    "properties": {
        "event": {"enum": ["part", "done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The translations.",
        "headers": {
            "X-Translation-Id": {
                "schema": {"type": "string"},
                "description": "With `attention`: the `id` of the answer.",
            }
        },
        "content": {MEDIA_TYPE: {"schema": _EVENT}},
    },
    **refusals(400, 403, 404, 413, 429, 500, 503, 504),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A parsed request and its arrival time by ``time.perf_counter``."""

    parameters: TranslateParameters
    request: TranslateRequest
    started: float


def create_translate_router(
    desk: MeteredTranslator, repository: ModelRepository, access: Access, store: TranslationStore
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts",
        response_model=TranslateAnswer,
        responses=_RESPONSES,
        openapi_extra=body_of(translate_schema(desk.limits)),
    )
    async def translate(request: Request) -> Response:
        """Blanks and line breaks around sentences come back exactly as they were."""
        started = time.perf_counter()
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = translate_parameters(fields, desk.limits)
        asked = _Asked(parameters, parameters.request(repository.offer), started)
        if parameters.stream:
            return await EventStream.begin(
                events(request, caller, asked), lambda error: _broken_off(request, error)
            )
        body = finished(asked, await desk.translate(request, caller, asked.request))
        headers = {"x-translation-id": body["id"]} if "id" in body else None
        return Json(body, headers=headers)

    async def events(request: Request, caller: Caller, asked: _Asked) -> AsyncIterator[Event]:
        async with aclosing(desk.stream(request, caller, asked.request)) as parts:
            async for each in parts:
                if isinstance(each, Part):
                    yield Event("part", {"text": each.text, "translatedText": each.target})
                else:
                    yield Event("done", finished(asked, each))

    def finished(asked: _Asked, translations: list[Translation]) -> dict[str, Any]:
        parameters = asked.parameters
        return answer(
            translations,
            single=isinstance(parameters.q, str),
            alternatives=parameters.hypotheses > 1,
            scores=bool(parameters.return_scores),
            timings=bool(parameters.timings),
            seconds=time.perf_counter() - asked.started,
            identifier=store.put(translations) if parameters.attention else None,
        )

    return router


def _broken_off(request: Request, error: Exception) -> Event:
    """Error event for a failure after status 200 has been sent."""
    refusal = refusal_of(error)
    facts_of(request).refusal = refusal
    message = f"internal error; it was logged as request {request_id.get()}"
    if isinstance(error, EXPECTED):
        message = str(error)
    return Event("error", {"error": message, "status": int(refusal.status)})
