"""Apertium APy: ``GET /listPairs`` and ``GET /translate?langpair=``, for OmegaT and Weblate."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from service.api.access import Access
from service.api.dialects.small_dialect import SmallDialect, fields_with_key, language_of, source_of
from service.api.error_bodies import ApertiumErrorAnswer, apertium_body
from service.api.fields import schemas
from service.api.fields.bounds import LANGUAGE_CHARACTERS
from service.api.fields.options import Key
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.metering import MeteredTranslator
from service.api.readings import Readings
from service.api.responses import Json, refusals
from service.api.routing import DirectRoute
from service.catalogue.catalogue import Catalogue
from service.catalogue.repository import ModelRepository
from service.translation.types import TranslateRequest

_DONE: Any = {"details": None, "status": 200}
_Pair = Annotated[str, Field(max_length=2 * LANGUAGE_CHARACTERS + 1, pattern=r"^[^|]*\|[^|]+$")]


class ApertiumParameters(BaseModel):
    langpair: _Pair = Field(description="Source and target.", examples=["de|en"])
    q: str = Field(examples=["Zwei Hunde."])
    key: Key | None = Field(None, description="Needed where the service requires keys.")

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        source, target = self.langpair.split("|")
        return TranslateRequest(
            (self.q,),
            language_of(target, catalogue, "targets"),
            source_of(source or None, catalogue),
        )


class TranslatedAnswer(Answer):
    translated_text: str = Field(serialization_alias="translatedText", examples=["Two dogs."])


class ListedPair(Answer):
    source: str = Field(serialization_alias="sourceLanguage", examples=["de"])
    target: str = Field(serialization_alias="targetLanguage", examples=["en"])


class ApertiumAnswer(Answer):
    data: TranslatedAnswer | list[ListedPair] = Field(serialization_alias="responseData")
    details: None = Field(serialization_alias="responseDetails")
    status: int = Field(serialization_alias="responseStatus")


APERTIUM = SmallDialect(fields_with_key("key"), apertium_body, ApertiumErrorAnswer)
_ANSWERED: dict[int | str, Any] = {200: answer_of(ApertiumAnswer)}


def create_router(metered: MeteredTranslator, readings: Readings) -> APIRouter:
    router = APIRouter(tags=["other dialects"], route_class=DirectRoute)

    @router.get(
        "/translate",
        summary="Translate a text, for clients of Apertium APy",
        responses={**_ANSWERED, **APERTIUM.refusals(403, 404, 504), **refusals(405)},
        openapi_extra={"parameters": schemas.query(ApertiumParameters, metered.limits)},
    )
    @APERTIUM.refusing
    async def translate(request: Request) -> Response:
        if "langpair" not in request.query_params:
            raise HTTPException(405)  # LibreTranslate's answer to GET.
        _, (found,) = await APERTIUM.translated(request, ApertiumParameters, metered, readings)
        return Json(ApertiumAnswer(data=TranslatedAnswer(translated_text=found.text), **_DONE))

    return router


class PairsParameters(BaseModel):
    key: Key | None = Field(None, description="A restricted key gets the pairs that it may use.")


def create_pairs_router(repository: ModelRepository, access: Access) -> APIRouter:
    router = APIRouter(tags=["other dialects"])

    @router.get(
        "/listPairs",
        summary="List language pairs, for clients of Apertium APy",
        responses={**_ANSWERED, **APERTIUM.refusals()},
        openapi_extra={"parameters": schemas.query(PairsParameters)},
    )
    @APERTIUM.refusing
    async def pairs(request: Request) -> Response:
        fields = await read_fields(request, APERTIUM.fields)
        permission = await access.permission(request, fields.parse(PairsParameters).key)
        permitted = repository.catalogue.permitted
        listed = [
            ListedPair(source=each.code.replace("-", "_"), target=target.replace("-", "_"))
            for each in await asyncio.to_thread(permitted, permission)
            for target in each.targets
        ]
        return Json(ApertiumAnswer(data=listed, **_DONE))

    return router
