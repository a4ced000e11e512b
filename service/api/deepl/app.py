"""FastAPI applications of DeepL's dialect, with their own errors and OpenAPI documents.

The root app mounts them, manages their lifespan and wraps them in its middleware.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from service.api.access import Access
from service.api.deepl import account, documents, glossaries, translate
from service.api.deepl.dialect import add_error_handlers
from service.api.metering import MeteredTranslator
from service.api.middleware import NO_TELEMETRY
from service.document_jobs.jobs import DocumentJobs
from service.state.glossaries import GlossaryStore
from service.translation.repository import ModelRepository

_DESCRIPTION = """What clients of DeepL's API speak. Any key will do where keys are off. Errors are
always `{"message": "..."}`."""


def create_deepl_app(
    metered: MeteredTranslator,
    access: Access,
    repository: ModelRepository,
    glossary_store: GlossaryStore,
    jobs: DocumentJobs | None,
    *,
    version: str,
) -> FastAPI:
    """To be mounted at ``/v2``. Without ``jobs``, documents are refused."""
    return _app(
        "Dragoman: DeepL API v2",
        version,
        translate.create_router(metered, access, repository, glossary_store),
        account.create_router(access, repository),
        documents.create_router(jobs, access, repository, glossary_store),
        glossaries.create_router(access, repository, glossary_store),
    )


def create_deepl_v3_app(
    access: Access, repository: ModelRepository, glossary_store: GlossaryStore, *, version: str
) -> FastAPI:
    """To be mounted at ``/v3``."""
    router = glossaries.create_multilingual_router(access, repository, glossary_store)
    return _app("Dragoman: DeepL API v3", version, router)


def _app(title: str, version: str, *routers: APIRouter) -> FastAPI:
    app = FastAPI(
        title=title,
        version=version,
        description=_DESCRIPTION,
        openapi_url=None,
        # DeepL, too, answers 404 to a path with an additional trailing slash.
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    for router in routers:
        app.router.routes.extend(router.routes)
    add_error_handlers(app, [route for router in routers for route in router.routes])
    return app
