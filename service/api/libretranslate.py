"""LibreTranslate's contract: its parameters, its answers, its errors. Decides nothing.

Beside its own fields, ``POST /translate`` takes decoding options under CTranslate2's names.
Fields nobody knows are ignored, as clients send some that belong to other servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, ValidationError

from service.api.errors import BadRequest
from service.api.middleware import facts_of
from service.api.options import DecodingParameters, Number
from service.api.parameters import Fields, read_fields
from service.api.responses import Json
from service.observability.metrics import Metrics
from service.translation.repository import ModelRepository, Offer
from service.translation.translator import Translator
from service.translation.types import TranslateRequest, Translation


@dataclass(frozen=True, slots=True)
class RequestLimits:
    texts: int
    characters: int
    alternatives: int


class TranslateParameters(DecodingParameters):
    """The fields of ``POST /translate``, in whichever shape they come."""

    q: str | list[str] = Field(
        description="The text, or a list of texts (JSON only).",
        examples=["Zwei junge Männer spielen Fußball auf einer Wiese."],
    )
    source: str = Field(description="Language code of the source, in any case.", examples=["de"])
    target: str = Field(description="Language code of the target, in any case.", examples=["en"])
    format: str = Field("text", description="Only `text`.")
    alternatives: Number = Field(0, ge=0, description="How many other translations to return.")
    api_key: str | None = Field(None, description="Accepted and not needed.")

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.q,) if isinstance(self.q, str) else tuple(self.q)

    @property
    def hypotheses(self) -> int:
        return max(self.alternatives + 1, self.num_hypotheses or 1)


class TranslateAnswer(BaseModel):
    translated_text: str | list[str] = Field(
        alias="translatedText",
        description="One translation, or a list where `q` is a list.",
        examples=["Two young men are playing soccer on a meadow."],
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None,
        description="Only if asked for: other translations, best first, without repetitions.",
    )
    truncated: bool | list[bool] | None = Field(
        None,
        description="Only if true of a text: a translation was cut at its longest allowed length.",
    )


class LanguageAnswer(BaseModel):
    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(
        description="What it can be translated to; every language also to itself.",
        examples=[["de", "en"]],
    )


class ErrorAnswer(BaseModel):
    error: str = Field(examples=["zz is not supported; on offer: de, en"])


_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "A field is missing or not what it should be."},
    413: {"model": ErrorAnswer, "description": "The body, the text or a word in it is too large."},
    500: {"model": ErrorAnswer, "description": "The model failed, or the service has a bug."},
    503: {
        "model": ErrorAnswer,
        "description": "The service is full or has no model yet.",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}},
    },
}

_SCHEMA = TranslateParameters.model_json_schema()
_BODY = {
    "requestBody": {
        "required": True,
        "description": "JSON or a form. The same fields may also come in the query string.",
        "content": {
            media_type: {"schema": _SCHEMA}
            for media_type in (
                "application/json",
                "application/x-www-form-urlencoded",
                "multipart/form-data",
            )
        },
    }
}


def create_router(
    translator: Translator, repository: ModelRepository, metrics: Metrics, limits: RequestLimits
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts",
        response_model=TranslateAnswer,
        responses=_ERRORS,
        openapi_extra=_BODY,
    )
    async def translate(request: Request) -> Response:
        """Blanks and line breaks around sentences come back exactly as they were."""
        parameters = _parameters(await read_fields(request), limits)
        if parameters.source.lower() == "auto":
            sources = ", ".join(repository.offer.sources)
            raise BadRequest(
                f"automatic detection of the source language is not supported; name one: {sources}"
            )
        pair = translator.pair(parameters.source, parameters.target)
        model = repository.offer.model(pair)
        if model is not None:
            facts_of(request).model = model.name
        translations = await translator.translate(
            TranslateRequest(
                parameters.texts,
                pair,
                parameters.overrides(parameters.hypotheses),
                parameters.priority,
            )
        )
        if model is not None:
            metrics.characters(model.name, sum(map(len, parameters.texts)))
        return Json(_answer(parameters, translations))

    @router.get(
        "/languages",
        summary="The languages on offer",
        response_model=list[LanguageAnswer],
        responses={503: _ERRORS[503]},
    )
    async def languages() -> Response:
        return Json(_languages(repository.offer))

    return router


def _parameters(fields: Fields, limits: RequestLimits) -> TranslateParameters:
    values = {name: value for name, value in fields.values.items() if value is not None}
    for name in ("q", "source", "target"):
        if values.get(name) in (None, "", []):
            raise BadRequest(f"Invalid request: missing {name} parameter{fields.hint}")
    try:
        parameters = TranslateParameters.model_validate(values)
    except ValidationError as error:
        raise BadRequest(_first_problem(error)) from error
    if parameters.format != "text":
        raise BadRequest(f"{parameters.format[:40]} format is not supported")
    texts, characters = parameters.texts, sum(map(len, parameters.texts))
    if len(texts) > limits.texts:
        raise BadRequest(_exceeds(len(texts), limits.texts))
    if characters > limits.characters:
        raise BadRequest(_exceeds(characters, limits.characters))
    if parameters.alternatives > limits.alternatives:
        raise BadRequest(
            f"Invalid request: alternatives parameter must be at most {limits.alternatives}"
        )
    return parameters


def _exceeds(size: int, limit: int) -> str:
    return f"Invalid request: request ({size}) exceeds text limit ({limit})"


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    name = first["loc"][0]
    if name == "q":
        problem = "must be a text or a list of texts"
    elif first["type"] in {"int_parsing", "int_type", "value_error", "float_parsing", "float_type"}:
        problem = "is not a number"
    else:
        problem = first["msg"].replace("Input should", "must")
    return f"Invalid request: {name} parameter {problem}"


def _answer(parameters: TranslateParameters, translations: list[Translation]) -> dict[str, Any]:
    answer: dict[str, list[Any]] = {"translatedText": [t.text for t in translations]}
    if parameters.hypotheses > 1:
        answer["alternatives"] = [list(t.alternatives) for t in translations]
    if any(t.truncated for t in translations):
        answer["truncated"] = [t.truncated for t in translations]
    if isinstance(parameters.q, str):
        return {name: of_texts[0] for name, of_texts in answer.items()}
    return answer


def _languages(offer: Offer) -> list[dict[str, Any]]:
    return [
        {
            "code": language.code,
            "name": language.name,
            "targets": sorted({language.code, *language.targets}),
        }
        for language in offer.languages
    ]
