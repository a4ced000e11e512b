"""Route ``POST /alternatives``: likely next words at a place of a translation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.fields import schemas
from service.api.fields.options import Key, LanguageCode, Name
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.libretranslate.languages import DetectionAnswer, detected, read, read_source
from service.api.metering import MeteredTranslator
from service.api.responses import Json, refusals
from service.catalogue.catalogue import Catalogue
from service.catalogue.repository import ModelRepository
from service.engine.types import MOST_ALTERNATIVES
from service.translation.alternatives import Alternatives, WordPlace
from service.translation.decoding import DECIMAL, WHOLE
from service.translation.types import TranslateRequest

_LARGEST_POSITION = 1_000_000_000
_DECIMALS = 6


class AlternativesParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str = Field(description="The text.", examples=["Ein Hund läuft durch den Schnee."])
    source: LanguageCode = Field(
        description="Language code of the text; `auto` finds it out.", examples=["de"]
    )
    target: LanguageCode = Field(description="Language code of the translation.", examples=["en"])
    translation: str | None = Field(
        None,
        description="A translation of it; the one that `POST /translate` returns if left out.",
        examples=["A dog walks through the snow."],
    )
    position: Annotated[int, Field(ge=0, le=_LARGEST_POSITION), WHOLE] = Field(
        description="Characters of the translation before the word that is to be replaced.",
        examples=[9],
    )
    limit: Annotated[int, Field(ge=1, le=MOST_ALTERNATIVES), WHOLE] = Field(
        10, description="How many words to return, at most."
    )
    min_probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), DECIMAL] = Field(
        0.001, description="Least probability of a word."
    )
    model: Name | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")

    @property
    def place(self) -> WordPlace:
        return WordPlace(self.position, self.translation, self.limit, self.min_probability)

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            (self.q,),
            read(self.target, catalogue.targets),
            read_source(self.source, catalogue.sources),
            self.model,
        )


class AlternativeAnswer(Answer):
    word: str = Field(examples=["runs"])
    probability: float = Field(
        ge=0,
        le=1,
        description="That this is the next word, given the text and the translation before it.",
    )
    translation: str = Field(
        description="The whole translation with this word.",
        examples=["A dog runs through the snow."],
    )


class AlternativesAnswer(Answer):
    translation: str = Field(examples=["A dog walks through the snow."])
    position: int = Field(examples=[6])
    alternatives: list[AlternativeAnswer] = Field(
        description="The likeliest first; the present word among them if it is likely."
    )
    detected_language: DetectionAnswer | None = Field(
        None, serialization_alias="detectedLanguage", description="If `source` was `auto`."
    )
    model: str = Field(examples=["general-de-en"])


def create_router(
    metered: MeteredTranslator, repository: ModelRepository, access: Access
) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/alternatives",
        summary="Likely next words at a place of a translation",
        responses={
            200: answer_of(AlternativesAnswer),
            **refusals(400, 403, 404, 413, 429, 500, 503, 504),
        },
        openapi_extra={"requestBody": schemas.body(AlternativesParameters, metered.limits)},
    )
    async def alternatives(request: Request) -> Response:
        """Only the sentence with the place is translated again."""
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(AlternativesParameters)
        wanted = parameters.request(repository.catalogue)
        found = await metered.alternatives(request, caller, wanted, parameters.place)
        return Json(_answer(found))

    return router


def _answer(found: Alternatives) -> AlternativesAnswer:
    given = {}
    if found.detection is not None:
        given["detected_language"] = detected(found.detection)
    return AlternativesAnswer(
        translation=found.translation,
        position=found.position,
        alternatives=[
            AlternativeAnswer(
                word=each.word,
                probability=round(each.probability, _DECIMALS),
                translation=each.translation,
            )
            for each in found.words
        ],
        model=found.model,
        **given,
    )
