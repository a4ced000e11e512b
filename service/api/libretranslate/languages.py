"""Language codes in LibreTranslate's spelling, and routes ``GET /languages`` and ``POST /detect``.

LibreTranslate writes BCP 47 and accepts short names of three languages. ``models.bundle.languages``
reads two of them for every API. The third is ``zh``, which is simplified Chinese by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.fields import schemas
from service.api.fields.bounds import RequestLimits
from service.api.fields.options import Key, Texts
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.responses import Json, refusals
from service.catalogue.repository import ModelRepository
from service.text.types import Detection, Language
from service.translation.request_reader import Detector, require_unicode

_MOST_GUESSES = 3
_CHINESE, _SIMPLIFIED_CHINESE = "zh", "zh-Hans"

AUTO = "auto"
"""Source value that requests language detection."""


def written(code: str) -> str:
    """A canonical code in the spelling of answers."""
    return _SIMPLIFIED_CHINESE if code == _CHINESE else code


def read(code: str, offered: Collection[str]) -> str:
    """The canonical code of a code in a request, given the loaded canonical codes."""
    for canonical, alias in ((_CHINESE, _SIMPLIFIED_CHINESE), (_SIMPLIFIED_CHINESE, _CHINESE)):
        if code.lower() == alias.lower() and alias not in offered and canonical in offered:
            return canonical
    return code


def read_source(code: str, offered: Collection[str]) -> str | None:
    """The source language that a client names; ``None`` requests language detection."""
    return None if code.lower() == AUTO else read(code, offered)


class LanguageAnswer(Answer):
    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(
        description="What it can be translated to; every language also to itself.",
        examples=[["de", "en"]],
    )


class DetectionAnswer(Answer):
    confidence: float = Field(ge=0, le=100, description="In percent.", examples=[98.5])
    language: str = Field(examples=["de"])


_NOTHING_DETECTED = DetectionAnswer(confidence=0.0, language="en")
"""LibreTranslate's answer for a text without a detectable language."""


def detected(detection: Detection | None) -> DetectionAnswer:
    """A detected language in LibreTranslate's format."""
    if detection is None or not detection.confidence:
        return _NOTHING_DETECTED
    return DetectionAnswer(
        confidence=round(100 * detection.confidence, 1), language=written(detection.language)
    )


class UnservedAnswer(Answer):
    """A language that is not on offer, and that the text is probably in."""

    confidence: float = Field(ge=0, le=100, description="In percent.", examples=[98.5])
    language: str = Field(examples=["fr"])
    command: str = Field(
        description="What the operator runs to add a model.",
        examples=["dragoman models add fr-en"],
    )


def unserved(detection: Detection | None) -> UnservedAnswer | None:
    """The language of a text that is not on offer, if its detection found one."""
    found = detection.unserved if detection is not None else None
    if found is None:
        return None
    return UnservedAnswer(
        confidence=round(100 * found.confidence, 1),
        language=written(found.language),
        command=found.command,
    )


class DetectParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str | Texts = Field(
        description="The text, or a list of texts in one language (JSON only).",
        examples=["Ein Hund läuft durch den Schnee."],
    )
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


def create_languages_router(
    repository: ModelRepository, access: Access, detector: Detector, limits: RequestLimits
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get(
        "/languages",
        summary="List languages",
        responses={200: answer_of(LanguageAnswer, many=True), **refusals(429, 500, 503)},
    )
    async def languages(request: Request) -> Response:
        """A key that is restricted gets the languages that it may use."""
        permission = await access.permission(request)
        permitted = repository.catalogue.permitted
        return Json(_languages(await asyncio.to_thread(permitted, permission)))

    @router.post(
        "/detect",
        summary="Detect the language of a text",
        responses={
            200: answer_of(DetectionAnswer, many=True),
            **refusals(400, 403, 413, 429, 500, 503),
        },
        openapi_extra={"requestBody": schemas.body(DetectParameters, limits)},
    )
    async def detect(request: Request) -> Response:
        """Up to three of the languages on offer, the likeliest first.

        English with no confidence stands for none of them.
        """
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(DetectParameters)
        limits.check(parameters.texts)
        require_unicode(parameters.texts)
        await access.admit(caller)
        codes = repository.catalogue.codes
        found = await asyncio.to_thread(detector.detect, "\n".join(parameters.texts), codes)
        return Json([detected(each) for each in found[:_MOST_GUESSES]] or [_NOTHING_DETECTED])

    return router


def _languages(languages: Iterable[Language]) -> list[LanguageAnswer]:
    return [
        LanguageAnswer(
            code=written(language.code),
            name=language.name,
            targets=sorted(map(written, {language.code, *language.targets})),
        )
        for language in languages
    ]
