"""Routes ``/v2/languages`` and ``/v2/usage``: supported languages and the caller's usage."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from service.api.access import Access
from service.api.deepl.dialect import admitted, answers
from service.api.deepl.languages import SupportedLanguageAnswer, listed
from service.api.fields import schemas
from service.api.fields.schemas import Answer, answer_of
from service.api.responses import Json
from service.catalogue.catalogue import Side
from service.catalogue.repository import ModelRepository

_UNLIMITED = 1_000_000_000_000
"""DeepL's value for no limit, as clients need a number."""


class LanguagesParameters(BaseModel):
    type: Literal["source", "target"] = Field("source", description="The side to list.")


class UsageAnswer(Answer):
    character_count: int = Field(description="Translated in this month, in UTC.")
    character_limit: int = Field(description=f"For this month; {_UNLIMITED} if there is none.")
    document_count: int
    start_time: str = Field(description="When the month began.")
    end_time: str = Field(description="When counting begins anew.")


def create_router(access: Access, repository: ModelRepository) -> APIRouter:
    router = APIRouter(tags=["account"])

    responses = {200: answer_of(UsageAnswer), **answers()}

    languages_listed = {200: answer_of(SupportedLanguageAnswer, many=True), **answers()}

    @router.get(
        "/languages",
        summary="List languages",
        responses=languages_listed,
        openapi_extra={"parameters": schemas.query(LanguagesParameters)},
    )
    # DeepL's client for Java sends the form.
    @router.post(
        "/languages",
        summary="List languages",
        responses=languages_listed,
        openapi_extra={"requestBody": schemas.body(LanguagesParameters)},
    )
    async def languages(request: Request) -> Response:
        """English and Portuguese are listed by their variants as targets."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(LanguagesParameters).type
        side: Side = "sources" if wanted == "source" else "targets"
        catalogue = repository.catalogue
        return Json(await asyncio.to_thread(listed, catalogue, side, caller.permission))

    @router.post("/usage", summary="Usage of the caller in this month", responses=responses)
    @router.get("/usage", summary="Usage of the caller in this month", responses=responses)
    async def usage(request: Request) -> Response:
        """Callers without a key are counted together."""
        caller, _ = await admitted(access, request)
        used = await access.usage(caller)
        return Json(
            UsageAnswer(
                character_count=used.characters,
                character_limit=caller.characters_per_month or _UNLIMITED,
                document_count=used.documents,
                start_time=_timestamp(used.begins),
                end_time=_timestamp(used.ends),
            )
        )

    return router


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
