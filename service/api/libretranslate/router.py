"""Router of LibreTranslate's routes, except ``GET /health`` in ``service.api.operations``.

Defines the small ones itself: ``POST /suggest`` stores a user's better translation,
``GET /frontend/settings`` and ``GET /spec`` serve LibreTranslate's web pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.errors import Disabled
from service.api.fields import schemas
from service.api.fields.options import Key, LanguageCode
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.libretranslate.files import create_files_router
from service.api.libretranslate.languages import AUTO, create_languages_router, read, written
from service.api.libretranslate.translate import KeepTranslations, create_translate_router
from service.api.metering import MeteredTranslator
from service.api.readings import Readings
from service.api.responses import Json, refusals
from service.catalogue.repository import ModelRepository
from service.document_jobs.jobs import DocumentJobs
from service.state.suggestions import SuggestionLimits, SuggestionStore
from service.translation.request_reader import Detector

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


class NamedLanguage(Answer):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class DefaultLanguages(Answer):
    source: NamedLanguage
    target: NamedLanguage


class FrontendAnswer(Answer):
    char_limit: int = Field(
        serialization_alias="charLimit", description="Characters in one request."
    )
    frontend_timeout: int = Field(
        serialization_alias="frontendTimeout",
        description="Milliseconds without a keystroke after which a page may translate.",
    )
    api_keys: bool = Field(serialization_alias="apiKeys", description="Whether there are API keys.")
    key_required: bool = Field(
        serialization_alias="keyRequired", description="Whether a caller needs one."
    )
    suggestions: bool = Field(description="Whether POST /suggest is open.")
    files_translation: bool = Field(
        serialization_alias="filesTranslation", description="Whether POST /translate_file is open."
    )
    supported_files_format: list[str] = Field(
        serialization_alias="supportedFilesFormat", examples=[[".txt", ".srt"]]
    )
    language: DefaultLanguages = Field(description="What to begin with.")


_Suggestion = Annotated[
    str, Field(min_length=1, max_length=SuggestionLimits().characters, pattern=r"\S")
]


class SuggestParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    q: _Suggestion = Field(description="The text.", examples=["Ein Hund läuft durch den Schnee."])
    s: _Suggestion = Field(
        description="A better translation of it.", examples=["A dog is running through the snow."]
    )
    source: LanguageCode = Field(description="Language code of the text.", examples=["de"])
    target: LanguageCode = Field(description="Language code of the translation.", examples=["en"])
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")


class SuggestAnswer(Answer):
    success: bool


def create_router(
    metered: MeteredTranslator,
    repository: ModelRepository,
    access: Access,
    detector: Detector,
    readings: Readings,
    keep: KeepTranslations,
    documents: DocumentJobs | None,
    suggestions: SuggestionStore | None,
    frontend: Frontend,
    public_url: str,
) -> APIRouter:
    """All routes of the dialect. Those that need ``documents`` or ``suggestions`` refuse as
    disabled without them."""
    router = APIRouter()
    for part in (
        create_translate_router(metered, readings, keep),
        create_languages_router(repository, access, detector, metered.limits),
        create_files_router(repository, access, documents, public_url),
        _suggestions(repository, access, suggestions),
        _settings(repository, frontend),
    ):
        router.routes.extend(part.routes)
    return router


def _suggestions(
    repository: ModelRepository, access: Access, suggestions: SuggestionStore | None
) -> APIRouter:
    """The route ``/suggest``, which refuses as disabled without a store."""
    router = APIRouter(tags=["translation"])

    @router.post(
        "/suggest",
        summary="Suggest a better translation",
        responses={200: answer_of(SuggestAnswer), **refusals(400, 403, 413, 429, 500, 503)},
        openapi_extra={"requestBody": schemas.body(SuggestParameters)},
    )
    async def suggest(request: Request) -> Response:
        """Kept for training the next model, where the operator wants that."""
        if suggestions is None:
            raise Disabled("suggestions are disabled on this server")
        fields = await read_fields(request)
        caller = await access.identify(request, fields.key)
        parameters = fields.parse(SuggestParameters)
        await access.admit(caller)
        catalogue = repository.catalogue
        pair = catalogue.pair(
            read(parameters.source, catalogue.sources), read(parameters.target, catalogue.targets)
        )
        await suggestions.add(caller.name, pair, parameters.q, parameters.s)
        return Json(SuggestAnswer(success=True))

    return router


def _settings(repository: ModelRepository, frontend: Frontend) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.get(
        "/frontend/settings",
        summary="Settings for web pages",
        responses={200: answer_of(FrontendAnswer), **refusals(500, 503)},
    )
    async def settings() -> Response:
        catalogue = repository.catalogue
        target = _FIRST_CHOICE if _FIRST_CHOICE in catalogue.targets else catalogue.targets[0]
        names = {language.code: language.name for language in catalogue.languages}
        return Json(
            FrontendAnswer(
                char_limit=frontend.characters,
                frontend_timeout=_TYPING_PAUSE,
                api_keys=frontend.keys,
                key_required=frontend.key_required,
                suggestions=frontend.suggestions,
                files_translation=frontend.documents,
                supported_files_format=list(frontend.extensions),
                language=DefaultLanguages(
                    source=NamedLanguage(code=AUTO, name="Auto Detect"),
                    target=NamedLanguage(code=written(target), name=names[target]),
                ),
            )
        )

    # LibreTranslate serves Swagger 2 here; the redirect leads to OpenAPI 3.1.
    @router.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        return RedirectResponse("openapi.json")

    return router
