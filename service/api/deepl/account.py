"""Routes ``/v2/languages`` and ``/v2/usage``: supported languages and the caller's usage."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from service.api.access import Access
from service.api.deepl.errors import answers
from service.api.deepl.fields import identify, read_fields
from service.api.deepl.languages import listed
from service.api.deepl.schemas import query_of
from service.api.responses import Json
from service.translation.repository import ModelRepository

_UNLIMITED = 1_000_000_000_000
"""DeepL's value for no limit, as clients need a number."""


class LanguagesParameters(BaseModel):
    type: Literal["source", "target"] = Field(
        "source", description="Which side; a form in the body says the same."
    )


class LanguageAnswer(BaseModel):
    language: str = Field(examples=["DE"])
    name: str = Field(examples=["German"])
    supports_formality: bool | None = Field(None, description="Of targets only; always false.")


class UsageAnswer(BaseModel):
    character_count: int = Field(description="Translated in this month, in UTC.")
    character_limit: int = Field(description=f"For this month; {_UNLIMITED} if there is none.")
    document_count: int
    start_time: str = Field(description="When the month began.")
    end_time: str = Field(description="When counting begins anew.")


def create_router(access: Access, repository: ModelRepository) -> APIRouter:
    router = APIRouter(tags=["account"])

    @router.get(
        "/languages",
        summary="The languages on offer",
        response_model=list[LanguageAnswer],
        responses=answers(),
        openapi_extra=query_of(LanguagesParameters),
    )
    async def languages(request: Request) -> Response:
        """As targets, English and Portuguese are listed by their variants."""
        fields = await read_fields(request)
        access.admit(await identify(access, request, fields))
        wanted = fields.parse(LanguagesParameters).type
        side: Literal["sources", "targets"] = "sources" if wanted == "source" else "targets"
        return Json(listed(repository.offer, side))

    @router.post(
        "/usage",
        summary="What the caller has used in this month",
        response_model=UsageAnswer,
        responses=answers(),
    )
    @router.get(
        "/usage",
        summary="What the caller has used in this month",
        response_model=UsageAnswer,
        responses=answers(),
    )
    async def usage(request: Request) -> Response:
        """Callers without a key are counted together."""
        caller = await identify(access, request, await read_fields(request))
        access.admit(caller)
        used = await access.usage(caller)
        return Json(
            {
                "character_count": used.characters,
                "character_limit": caller.characters_per_month or _UNLIMITED,
                "document_count": used.documents,
                "start_time": _timestamp(used.begins),
                "end_time": _timestamp(used.ends),
            }
        )

    return router


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
