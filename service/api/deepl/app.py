"""FastAPI applications of DeepL's dialect, with their own errors and OpenAPI documents.

The root app mounts them, manages their lifespan and wraps them in its middleware.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

import service
from service.api.access import Access
from service.api.deepl import account, documents, glossaries, memories, resources
from service.api.deepl.dialect import add_error_handlers
from service.api.middleware import NO_TELEMETRY
from service.catalogue.repository import ModelRepository
from service.document_jobs.jobs import DocumentJobs
from service.state.glossaries import GlossaryStore
from service.state.memories import MemoryStore

_DESCRIPTION = """What clients of DeepL's API speak. Any key will do where keys are off. Errors are
always `{"message": "..."}`."""


def create_deepl_app(
    translation: APIRouter,
    access: Access,
    repository: ModelRepository,
    glossary_store: GlossaryStore,
    jobs: DocumentJobs | None,
    *,
    version: str,
) -> FastAPI:
    """The app at ``/v2``, whose texts ``translation`` translates. Without ``jobs``, documents are
    refused."""
    return deepl_app(
        "v2",
        translation,
        account.create_router(access, repository),
        documents.create_router(jobs, access, repository, glossary_store),
        glossaries.create_router(access, repository, glossary_store),
        version=version,
    )


def create_deepl_v3_app(
    access: Access,
    repository: ModelRepository,
    glossary_store: GlossaryStore,
    memory_store: MemoryStore,
    *,
    public_url: str,
    documents: bool,
    version: str,
) -> FastAPI:
    """The app at ``/v3``; ``documents`` says whether the service translates them."""
    return deepl_app(
        "v3",
        glossaries.create_multilingual_router(access, repository, glossary_store),
        resources.create_router(access, repository, documents=documents),
        memories.create_router(access, memory_store, public_url),
        version=version,
    )


def deepl_app(interface: str, *routers: APIRouter, version: str = service.__version__) -> FastAPI:
    """An app of these routers; ``interface`` is the version of DeepL's API."""
    app = FastAPI(
        title=f"Dragoman: DeepL API {interface}",
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
