"""Routes ``GET /languages`` and ``POST /detect``: loaded languages, language detection."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.errors import BadRequest
from service.api.libretranslate.answer import NOTHING_DETECTED, DetectionAnswer, detected
from service.api.libretranslate.spelling import written
from service.api.metering import RequestLimits
from service.api.parameters import RequiredText, body_of, read_fields
from service.api.responses import Json, refusals
from service.translation.catalogue import Catalogue
from service.translation.errors import InvalidText
from service.translation.repository import ModelRepository
from service.translation.translator import Detector

_MOST_GUESSES = 3


class LanguageAnswer(BaseModel):
    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(
        description="What it can be translated to; every language also to itself.",
        examples=[["de", "en"]],
    )


class DetectParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: RequiredText | Annotated[list[str], Field(min_length=1)] = Field(
        description="The text, or a list of texts in one language (JSON only).",
        examples=["Ein Hund läuft durch den Schnee."],
    )
    api_key: str | None = Field(None, description="If the operator asks for one.")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


def create_languages_router(
    repository: ModelRepository, access: Access, detector: Detector, limits: RequestLimits
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get(
        "/languages",
        summary="The languages on offer",
        response_model=list[LanguageAnswer],
        responses=refusals(500, 503),
    )
    async def languages() -> Response:
        return Json(_languages(repository.offer))

    @router.post(
        "/detect",
        summary="Find out which language a text is in",
        response_model=list[DetectionAnswer],
        responses=refusals(400, 403, 413, 429, 500, 503),
        openapi_extra=body_of(_detect_schema(limits)),
    )
    async def detect(request: Request) -> Response:
        """Up to three of the languages on offer, the likeliest first.

        English with no confidence stands for none of them.
        """
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(DetectParameters, ("q",))
        _check(parameters, limits)
        access.admit(caller)
        offer = repository.offer
        codes = sorted({*offer.sources, *offer.targets})
        found = await asyncio.to_thread(detector.detect, "\n".join(parameters.texts), codes)
        guesses = [detected(detection) for detection in found[:_MOST_GUESSES]]
        return Json(guesses or [NOTHING_DETECTED])

    return router


def _check(parameters: DetectParameters, limits: RequestLimits) -> None:
    characters = sum(map(len, parameters.texts))
    for size, limit in ((len(parameters.texts), limits.texts), (characters, limits.characters)):
        if size > limit:
            raise BadRequest(f"Invalid request: request ({size}) exceeds text limit ({limit})")
    for number, text in enumerate(parameters.texts, start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(number) from error


def _languages(offer: Catalogue) -> list[dict[str, Any]]:
    return [
        {
            "code": written(language.code),
            "name": language.name,
            "targets": sorted(map(written, {language.code, *language.targets})),
        }
        for language in offer.languages
    ]


def _detect_schema(limits: RequestLimits) -> dict[str, Any]:
    schema = DetectParameters.model_json_schema()
    text, texts = schema["properties"]["q"]["anyOf"]
    text["maxLength"] = limits.characters
    texts["maxItems"] = limits.texts
    return schema
