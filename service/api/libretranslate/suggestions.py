"""Route ``POST /suggest``: stores a user's better translation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.errors import Disabled
from service.api.libretranslate.spelling import read
from service.api.parameters import RequiredText, body_of, read_fields
from service.api.responses import Json, refusals
from service.state.suggestions import SuggestionStore
from service.translation.repository import ModelRepository

_LONGEST = 10_000
_Text = Annotated[str, Field(min_length=1, max_length=_LONGEST, pattern=r"\S")]


class SuggestParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: _Text = Field(description="The text.", examples=["Ein Hund läuft durch den Schnee."])
    s: _Text = Field(
        description="A better translation of it.", examples=["A dog is running through the snow."]
    )
    source: RequiredText = Field(description="Language code of the text.", examples=["de"])
    target: RequiredText = Field(description="Language code of the translation.", examples=["en"])
    api_key: str | None = Field(None, description="If the operator asks for one.")


class SuggestAnswer(BaseModel):
    success: bool


def create_suggestions_router(
    repository: ModelRepository, access: Access, suggestions: SuggestionStore | None
) -> APIRouter:
    """Without a store, the route refuses as disabled."""
    router = APIRouter(tags=["translation"])

    @router.post(
        "/suggest",
        summary="Suggest a better translation",
        response_model=SuggestAnswer,
        responses=refusals(400, 403, 413, 429, 500, 503),
        openapi_extra=body_of(SuggestParameters.model_json_schema()),
    )
    async def suggest(request: Request) -> Response:
        """Kept for training the next model, where the operator wants that."""
        if suggestions is None:
            raise Disabled("suggestions are disabled on this server")
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(SuggestParameters, ("q", "s", "source", "target"))
        access.admit(caller)
        offer = repository.offer
        pair = offer.pair(
            read(parameters.source, offer.sources), read(parameters.target, offer.targets)
        )
        await suggestions.add(caller.name, pair, parameters.q, parameters.s)
        return Json({"success": True})

    return router
