"""Router of LibreTranslate's routes, except ``GET /health`` in ``service.api.operations``."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.access import Access
from service.api.libretranslate.files import create_files_router
from service.api.libretranslate.languages import create_languages_router
from service.api.libretranslate.settings import Frontend, create_settings_router
from service.api.libretranslate.suggestions import create_suggestions_router
from service.api.libretranslate.translate import create_translate_router
from service.api.metering import MeteredTranslator
from service.document_jobs.jobs import DocumentJobs
from service.state.suggestions import SuggestionStore
from service.translation.repository import ModelRepository
from service.translation.store import TranslationStore
from service.translation.translator import Detector


def create_router(
    desk: MeteredTranslator,
    repository: ModelRepository,
    access: Access,
    detector: Detector,
    store: TranslationStore,
    documents: DocumentJobs | None,
    suggestions: SuggestionStore | None,
    frontend: Frontend,
) -> APIRouter:
    """Without ``documents`` or ``suggestions``, routes that need them refuse as disabled."""
    router = APIRouter()
    router.include_router(create_translate_router(desk, repository, access, store))
    router.include_router(create_languages_router(repository, access, detector, desk.limits))
    router.include_router(create_files_router(repository, access, documents))
    router.include_router(create_suggestions_router(repository, access, suggestions))
    router.include_router(create_settings_router(repository, frontend))
    return router
