"""Builds every object of the service once, in order, and takes them down in reverse.

Nothing here is global: each call builds a service of its own, and several can live in one
process. Only entry points and tests import this module.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fastapi import FastAPI

import service
from service.api.app import create_root_app
from service.api.libretranslate import RequestLimits
from service.engine.observer import EngineObserver
from service.loading import announcing, discover, load_model, only, pair_of
from service.observability.logging import configure
from service.observability.metrics import Metrics
from service.settings import Settings
from service.translation.errors import NotReady
from service.translation.repository import LoadedModel, ModelRepository
from service.translation.translator import Translator
from service.translation.types import LanguagePair

logger = logging.getLogger(__name__)

LoadModel = Callable[[Path, Settings, Callable[[str], EngineObserver]], Awaitable[LoadedModel]]


@dataclass(frozen=True, slots=True)
class Service:
    """A service that has been built. It runs while ``app``'s lifespan does."""

    app: FastAPI
    repository: ModelRepository
    translator: Translator
    metrics: Metrics
    loaded: asyncio.Event
    """Set once the bundles that were there at the start are on offer or known to be broken."""


def build(settings: Settings, load: LoadModel = load_model) -> Service:
    metrics = Metrics()
    load_path = partial(_load, load, settings, metrics)
    repository = ModelRepository(
        partial(discover, settings.bundles), announcing(load_path, metrics.model_loaded)
    )
    translator = Translator(repository, max_sentences=settings.max_sentences)
    loaded = asyncio.Event()
    app = create_root_app(
        repository,
        translator,
        metrics,
        limits=RequestLimits(
            texts=settings.max_texts,
            characters=settings.max_characters,
            alternatives=settings.max_beam_size - 1,
        ),
        max_body_bytes=settings.max_body_bytes,
        version=service.__version__,
        lifespan=lambda _: _lifespan(repository, loaded),
    )
    return Service(app, repository, translator, metrics, loaded)


def create_app(settings: Settings) -> FastAPI:
    """The ASGI app. It answers at once and loads its models while it runs; see ``/readyz``."""
    return build(settings).app


@asynccontextmanager
async def running(settings: Settings, load: LoadModel = load_model) -> AsyncIterator[Service]:
    """A service whose lifespan has begun and whose bundles have been loaded, without a server."""
    built = build(settings, load)
    async with built.app.router.lifespan_context(built.app):
        await built.loaded.wait()
        yield built


@asynccontextmanager
async def local_translator(
    settings: Settings, pair: LanguagePair, load: LoadModel = load_model
) -> AsyncIterator[Translator]:
    """A translator for one pair in this process, without HTTP; raises ``NotReady`` by name."""
    found = discover(settings.bundles)
    if not only(found, pair):
        offered = ", ".join(sorted({str(pair_of(bundle)) for bundle in found})) or "nothing"
        raise NotReady(f"no bundle in {settings.bundles} translates {pair}; on offer: {offered}")
    repository = ModelRepository(
        lambda: only(discover(settings.bundles), pair),
        lambda bundle: _load(load, settings, Metrics(), bundle.path),
    )
    try:
        await repository.reload()
        yield Translator(repository, max_sentences=sys.maxsize)
    finally:
        await repository.close()


def configure_logging(settings: Settings) -> None:
    """Set up the log of the whole process; for entry points only."""
    configure(settings.log_level, settings.log_format)
    # It would say in its own words what the command line and the lifespan say.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


async def _load(load: LoadModel, settings: Settings, metrics: Metrics, path: Path) -> LoadedModel:
    return await load(path, settings, metrics.observer)


@asynccontextmanager
async def _lifespan(repository: ModelRepository, loaded: asyncio.Event) -> AsyncIterator[None]:
    loading = asyncio.create_task(_load_all(repository, loaded))
    try:
        yield
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        await repository.close()
        logger.info("stopped")


async def _load_all(repository: ModelRepository, loaded: asyncio.Event) -> None:
    await repository.reload()
    loaded.set()
    try:
        names = ", ".join(model.name for model in repository.offer.models)
        logger.info("ready", extra={"models": names})
    except NotReady as error:
        logger.error("not ready: %s", error)
