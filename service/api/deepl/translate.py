"""Route ``/v2/translate``: translates texts in DeepL's request and response format."""

from __future__ import annotations

import math
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from service.api.access import Access
from service.api.deepl.errors import answers
from service.api.deepl.fields import identify, read_fields
from service.api.deepl.languages import language, shown
from service.api.deepl.parameters import TranslateParameters
from service.api.deepl.schemas import body_of, query_of
from service.api.deepl.terms import terms_of
from service.api.metering import MeteredTranslator
from service.api.responses import Json
from service.state.glossaries import GlossaryStore
from service.translation.repository import ModelRepository
from service.translation.types import TranslateRequest, Translation


class TranslationAnswer(BaseModel):
    detected_source_language: str = Field(examples=["DE"])
    text: str = Field(examples=["Two young men are playing soccer on a meadow."])
    billed_characters: int
    model_type_used: str | None = Field(None, description="Only if `model_type` was given.")
    score: float | None = Field(None, description="Only with `return_scores`; null if unknown.")
    truncated: bool = Field(description="Whether a sentence was cut at its longest allowed length.")
    alternatives: list[str] | None = Field(None, description="Only with `num_hypotheses`.")
    ignored: list[str] | None = Field(
        None, description="Only if there are any: fields that were given and change nothing."
    )


class TranslateAnswer(BaseModel):
    translations: list[TranslationAnswer] = Field(description="In the order of the texts.")


def create_router(
    desk: MeteredTranslator, access: Access, repository: ModelRepository, store: GlossaryStore
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get(
        "/translate",
        summary="Translate texts, for clients that send no body",
        response_model=TranslateAnswer,
        responses=answers(404, 456, 504),
        openapi_extra=query_of(TranslateParameters, widest=desk.limits.alternatives + 1),
    )
    @router.post(
        "/translate",
        summary="Translate texts",
        response_model=TranslateAnswer,
        responses=answers(404, 456, 504),
        openapi_extra=body_of(TranslateParameters, widest=desk.limits.alternatives + 1),
    )
    async def translate(request: Request) -> Response:
        """Blanks, line breaks and tags come back exactly as they were."""
        fields = await read_fields(request)
        caller = await identify(access, request, fields)
        parameters = fields.parse(TranslateParameters)
        offer = repository.offer
        source = parameters.source_lang
        terms = await terms_of(
            store,
            caller,
            offer,
            parameters.glossary_id,
            parameters.glossary_ids or (),
            source,
            parameters.target_lang,
        )
        wanted = TranslateRequest(
            texts=tuple(parameters.text),
            target=language(offer, parameters.target_lang, "targets"),
            source=None if source is None else language(offer, source, "sources"),
            model=parameters.model,
            decoding=parameters.decoding,
            markup=parameters.markup,
            splitting=parameters.splitting,
            terms=terms,
            priority=parameters.priority or "interactive",
        )
        translations = await desk.translate(request, caller, wanted)
        pairs = zip(parameters.text, translations, strict=True)
        return Json({"translations": [_answer(parameters, *pair) for pair in pairs]})

    return router


def _answer(parameters: TranslateParameters, text: str, translation: Translation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "detected_source_language": shown(translation.pair.source),
        "text": translation.text,
        "billed_characters": len(text),
        "truncated": translation.truncated,
    }
    if parameters.model_type is not None:
        answer["model_type_used"] = parameters.model_type.removeprefix("prefer_")
    if parameters.return_scores:
        score = translation.scores[0]
        answer["score"] = score if math.isfinite(score) else None
    if (parameters.num_hypotheses or 1) > 1:
        answer["alternatives"] = list(translation.alternatives)
    if parameters.ignored:
        answer["ignored"] = parameters.ignored
    return answer
