"""Routes ``GET /frontend/settings`` and ``GET /spec`` for LibreTranslate's web pages."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from service.api.libretranslate.spelling import AUTO, written
from service.api.responses import Json, refusals
from service.translation.repository import ModelRepository

_TYPING_PAUSE = 500
_FIRST_CHOICE = "en"


@dataclass(frozen=True, slots=True)
class Frontend:
    """Features and limits that a web page may offer."""

    characters: int
    """Maximum in one request."""
    keys: bool
    """Whether API keys are in use."""
    key_required: bool
    suggestions: bool
    documents: bool
    extensions: tuple[str, ...]
    """Extensions of supported documents."""


class NamedLanguage(BaseModel):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class DefaultLanguages(BaseModel):
    source: NamedLanguage
    target: NamedLanguage


class FrontendAnswer(BaseModel):
    char_limit: int = Field(alias="charLimit", description="Characters in one request.")
    frontend_timeout: int = Field(
        alias="frontendTimeout",
        description="Milliseconds without a keystroke after which a page may translate.",
    )
    api_keys: bool = Field(alias="apiKeys", description="Whether there are API keys.")
    key_required: bool = Field(alias="keyRequired", description="Whether a caller needs one.")
    suggestions: bool = Field(description="Whether POST /suggest is open.")
    files_translation: bool = Field(
        alias="filesTranslation", description="Whether POST /translate_file is open."
    )
    supported_files_format: list[str] = Field(
        alias="supportedFilesFormat", examples=[[".txt", ".srt"]]
    )
    language: DefaultLanguages = Field(description="What to begin with.")


def create_settings_router(repository: ModelRepository, frontend: Frontend) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get(
        "/frontend/settings",
        summary="What a page may offer",
        response_model=FrontendAnswer,
        responses=refusals(500, 503),
    )
    async def settings() -> Response:
        offer = repository.offer
        target = _FIRST_CHOICE if _FIRST_CHOICE in offer.targets else offer.targets[0]
        names = {language.code: language.name for language in offer.languages}
        body = {
            "charLimit": frontend.characters,
            "frontendTimeout": _TYPING_PAUSE,
            "apiKeys": frontend.keys,
            "keyRequired": frontend.key_required,
            "suggestions": frontend.suggestions,
            "filesTranslation": frontend.documents,
            "supportedFilesFormat": list(frontend.extensions),
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": written(target), "name": names[target]},
            },
        }
        return Json(body)

    # LibreTranslate serves Swagger 2 here; the redirect leads to OpenAPI 3.1.
    @router.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        return RedirectResponse("openapi.json")

    return router
