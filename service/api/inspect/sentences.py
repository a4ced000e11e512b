"""Route ``POST /sentences``: the sentences that ``POST /translate`` would decode.

A client that keeps the translations of sentences sends only the others.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.fields import schemas
from service.api.fields.options import Key, LanguageCode, Name
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.fields.terms import Glossary, terms_of
from service.api.libretranslate.languages import (
    DetectionAnswer,
    UnservedAnswer,
    detected,
    read,
    read_source,
    unserved,
    written,
)
from service.api.metering import MeteredTranslator
from service.api.responses import Json, refusals
from service.catalogue.catalogue import Catalogue
from service.catalogue.repository import ModelRepository
from service.translation.split_text import SplitText
from service.translation.types import TranslateRequest


class SentencesParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str = Field(description="The text.", examples=["Ein Hund. Zwei Katzen."])
    source: LanguageCode = Field(
        description="Language code of the text; `auto` finds it out.", examples=["auto"]
    )
    target: LanguageCode = Field(description="Language code of the translation.", examples=["en"])
    model: Name | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )
    glossary: Glossary = None
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            (self.q,),
            read(self.target, catalogue.targets),
            read_source(self.source, catalogue.sources),
            self.model,
            terms=terms_of(self.glossary) if self.glossary else (),
        )


class SentencesAnswer(Answer):
    source: str = Field(description="The language of the text.", examples=["de"])
    sentences: list[str] = Field(
        description="In order, as they stand in the text; what is copied is none.",
        examples=[["Ein Hund.", "Zwei Katzen."]],
    )
    separators: list[str] = Field(
        description="What stands around the translations of the sentences in that of the text: one "
        "more than there are sentences.",
        examples=[["", " ", ""]],
    )
    model: str | None = Field(
        description="As in `POST /translate`.",
        examples=["general-de-en"],
    )
    detected_language: DetectionAnswer | None = Field(
        None, serialization_alias="detectedLanguage", description="If `source` was `auto`."
    )
    unserved_language: UnservedAnswer | None = Field(
        None, serialization_alias="unservedLanguage", description="As in `POST /translate`."
    )


def create_router(
    metered: MeteredTranslator, repository: ModelRepository, access: Access
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/sentences",
        summary="Split a text into the sentences that a translation decodes",
        responses={
            200: answer_of(SentencesAnswer),
            **refusals(400, 403, 404, 413, 429, 500, 503, 504),
        },
        openapi_extra={"requestBody": schemas.body(SentencesParameters, metered.limits)},
    )
    async def sentences(request: Request) -> Response:
        """Decodes nothing and costs no characters."""
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(SentencesParameters)
        wanted = parameters.request(repository.catalogue)
        await access.admit(caller)
        return Json(_answer(await metered.split(request, caller, wanted)))

    return router


def _answer(found: SplitText) -> SentencesAnswer:
    given: dict[str, Any] = {}
    if found.detection is not None:
        given["detected_language"] = detected(found.detection)
        if (other := unserved(found.detection)) is not None:
            given["unserved_language"] = other
    return SentencesAnswer(
        source=written(found.pair.source),
        sentences=list(found.sentences),
        separators=list(found.separators),
        model=found.model,
        **given,
    )
