"""Composition root: builds every object of the service, and closes them in reverse order.

There is no global state: each call builds its own service, and several can run in one process.
Only entry points and tests import this module.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

import service
from service.api import keys, operations
from service.api.access import Access, AccessPolicy, Caller, Callers
from service.api.app import create_root_app
from service.api.deepl import translate as deepl
from service.api.deepl.app import create_deepl_app, create_deepl_v3_app, deepl_app
from service.api.deepl.memories import UPLOAD, Memories
from service.api.dialects import apertium, google, google_languages, web_pages
from service.api.draining import Drain
from service.api.fields.bounds import RequestLimits
from service.api.inspect import alternatives, attention, sentences
from service.api.libretranslate.router import Frontend
from service.api.libretranslate.router import create_router as create_libretranslate_router
from service.api.libretranslate.translate import create_translate_router
from service.api.metering import (
    ChargedDecoders,
    MeteredTranslator,
    RequestMeter,
)
from service.api.openapi import add_document
from service.api.pages import add_pages
from service.api.readings import MOST_BYTES, Readings
from service.catalogue.catalogue import Catalogue, Preference
from service.catalogue.errors import NotReady
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import Loader, ModelRepository, Reloaded
from service.catalogue.residency import Residency
from service.catalogue.shared_results import sharing
from service.document_jobs.jobs import DocumentJobs, DocumentLimits
from service.document_jobs.work import DocumentWork
from service.documents import SUPPORTED, DocumentReader
from service.engine.types import Priority
from service.figures.painter import Painter
from service.inspection.inspector import Inspector
from service.inspection.kept_translations import KeptTranslations
from service.inspection.translation_store import TranslationStore
from service.loading.devices import watch_devices
from service.loading.discovery import discover
from service.loading.loader import LoadModel, announcing, load_model
from service.loading.on_demand import OnDemandLoader
from service.loading.reloader import Reloader
from service.loading.tokenizers import TokenizerCache, open_tokenizers
from service.observability.metrics import Metrics
from service.observability.tracing import SilentTracing, Tracing, TracingUnavailable
from service.settings import InvalidSetting, Settings
from service.state.announcements import Announcements
from service.state.database import Database
from service.state.glossaries import GlossaryStore
from service.state.keys import KeyStore
from service.state.memories import MemoryStore
from service.state.redis_server import RedisServer
from service.state.shared_rates import SharedRateLimits
from service.state.suggestions import SuggestionStore
from service.state.usage import UsageLedger
from service.text.detection import LinguaDetector
from service.threads.allocator import resident_bytes
from service.translation.admission import Admission
from service.translation.alternatives import AlternativeFinder
from service.translation.expected_wait import ExpectedWait
from service.translation.local_translator import LocalTranslator
from service.translation.translator import Translator
from service.translation.types import Translation
from service.workers.decode_server import DecodeServer
from service.workers.owner_link import OpenModel, OwnerLink, socket_beside

if TYPE_CHECKING:
    from service.api.oidc import OidcIssuer

logger = logging.getLogger(__name__)

UPLOADS = ("/translate_file", "/v2/document")
"""Paths of uploaded documents."""
_AROUND_A_DOCUMENT = 1 << 16
"""Bytes allowed for the other form fields of an upload."""


@dataclass(frozen=True, slots=True)
class Service:
    """The objects of one service, which runs during the lifespan of ``app``."""

    app: FastAPI
    repository: ModelRepository
    translator: LocalTranslator
    metrics: Metrics
    drain: Drain
    reloader: Reloader
    decode_server: DecodeServer
    loaded: asyncio.Event
    """Set once the initial bundles are loaded or known to be broken."""


def build(
    settings: Settings, load: LoadModel = load_model, decode_socket: Path | None = None
) -> Service:
    """``decode_socket``: path on which workers have sentences decoded; ``None`` without workers."""
    metrics = Metrics()
    drain = Drain()
    tracing = open_tracing(settings.tracing)
    detector = LinguaDetector()
    redis = RedisServer(settings.redis)

    async def load_path(path: Path) -> LoadedModel:
        return await load(path, settings, metrics.observer)

    loader: Loader = announcing(load_path, metrics.model_loaded)
    if settings.model_megabytes:
        if sys.platform != "linux":
            raise InvalidSetting("DRAGOMAN_MODEL_MEGABYTES is for Linux, where memory is measured")
        residency = Residency(settings.model_megabytes << 20, resident_bytes, metrics)
        loader = OnDemandLoader(
            settings, residency, loader, metrics.observer, metrics.model_offered
        )
    if settings.redis and settings.result_megabytes:
        loader = sharing(loader, redis)
    repository = ModelRepository(
        partial(discover, settings.bundles), loader, preference_of(settings)
    )
    repository.watch(lambda: _prepare(detector, repository))
    reloader = Reloader(repository, metrics, settings.reload_seconds)
    translator = LocalTranslator(repository, _admission(settings), detector)
    state = _State(settings)
    issuer = issuer_of(settings)
    access = Access(policy_of(settings), state.keys, state.usage, SharedRateLimits(redis), issuer)
    limits = limits_of(settings)
    decoders = ChargedDecoders(access, translator.decoders)
    metered = MeteredTranslator(
        translator.stages,
        AlternativeFinder(repository, translator.stages),
        RequestMeter(limits, access.callers, metrics),
        decoders.opened,
    )
    readings = Readings(repository, access.identify, readings_bytes(settings))
    local = TranslationStore(settings.attention_megabytes, metrics.attention_store)
    store = KeptTranslations(local, redis if settings.redis else None)

    async def keep(caller: Caller, translations: Sequence[Translation]) -> str:
        return await store.put(translations, access.callers.scope(caller))

    painter = Painter()
    reader = DocumentReader()
    documents = DocumentJobs(
        DocumentWork(reader, translator, repository, metrics),
        state.database,
        DocumentLimits(document_bytes=settings.max_document_bytes),
        paused=lambda: drain.begun or bool(operations.hindrances(repository, drain)),
    )
    reloads = Announcements(state.database, "reloads")

    async def reload_everywhere() -> Reloaded:
        # Nothing is reloaded, here or elsewhere, if the database is away.
        await reloads.announce()
        return await reloader.reload()

    kept = documents if settings.documents else None
    routers = [
        create_libretranslate_router(
            metered,
            repository,
            access,
            detector,
            readings,
            keep,
            kept,
            state.suggestions if settings.suggestions else None,
            _frontend(settings),
            settings.public_url,
        ),
        *_small_dialects(metered, readings),
        apertium.create_pairs_router(repository, access),
        google_languages.create_router(repository, access, detector, limits),
        alternatives.create_router(metered, repository, access),
        sentences.create_router(metered, repository, access),
        attention.create_router(Inspector(repository, store), painter, access, limits),
        operations.create_router(
            repository,
            metrics,
            drain,
            reload_everywhere,
            access.require_admin,
            access.permission,
        ),
        keys.create_router(state.keys, state.usage, access.require_admin),
    ]
    decode_server = DecodeServer(decoders.opened, store, repository, metrics, drain)
    loaded = asyncio.Event()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(logger.info, "stopped")
            stack.push_async_callback(asyncio.to_thread, tracing.close)
            await stack.enter_async_context(state.open())
            stack.push_async_callback(redis.close)
            if issuer is not None:
                await stack.enter_async_context(issuer.running())
            stack.push_async_callback(painter.close)
            stack.push_async_callback(repository.close)
            if kept is not None:
                stack.push_async_callback(reader.close)
                kept.start()
                stack.push_async_callback(kept.close)
            await stack.enter_async_context(reloader.running())
            watching = reloads.watch(partial(reloader.request, "request"))
            await stack.enter_async_context(_cancelled_at_the_end(watching))
            loading = _load_all(repository, reloader, loaded)
            await stack.enter_async_context(_cancelled_at_the_end(loading))
            watching = _watch(settings, metrics, loaded)
            await stack.enter_async_context(_cancelled_at_the_end(watching))
            if decode_socket is not None:
                await stack.enter_async_context(decode_server.listening(decode_socket))
            yield

    dialects = {
        "/v2": create_deepl_app(
            _deepl_translation(metered, readings, state),
            access,
            repository,
            state.glossaries,
            kept,
            version=service.__version__,
        ),
        "/v3": create_deepl_v3_app(
            access,
            repository,
            state.glossaries,
            state.memories,
            public_url=settings.public_url,
            documents=settings.documents,
            version=service.__version__,
        ),
    }
    app = create_root_app(
        routers,
        dialects,
        metrics,
        drain,
        tracing,
        max_body_bytes=settings.max_body_bytes,
        larger_bodies={
            **dict.fromkeys(
                UPLOADS,
                max(settings.max_body_bytes, settings.max_document_bytes + _AROUND_A_DOCUMENT),
            ),
            UPLOAD: state.memories.limits.file_bytes,
        },
        version=service.__version__,
        lifespan=lifespan,
    )
    add_pages(app, settings.public_url)
    add_document(
        app,
        dialects,
        keys_required=settings.keys == "required",
        public_url=settings.public_url,
    )
    return Service(app, repository, translator, metrics, drain, reloader, decode_server, loaded)


@dataclass(frozen=True, slots=True)
class Front:
    """The translation routes of a worker, which run during the lifespan of ``app``."""

    app: FastAPI
    link: OwnerLink


def preference_of(settings: Settings) -> Preference:
    return Preference(settings.preferred, settings.canaries)


def build_front(
    settings: Settings, owner: Path, drain: Drain, open_model: OpenModel | None = None
) -> Front:
    """The translation routes with the decoder of the owner, whose HTTP socket is ``owner``."""
    detector = LinguaDetector()
    if open_model is None:
        open_model = TokenizerCache().list if settings.model_megabytes else open_tokenizers
    link = OwnerLink(
        socket_beside(owner),
        detector.prepare,
        open_model,
        preference_of(settings),
        settings.request_seconds,
    )
    state = _State(settings)
    issuer = issuer_of(settings)
    callers = Callers(policy_of(settings), state.keys, issuer)

    async def keep(caller: Caller, translations: Sequence[Translation]) -> str:
        return await link.keep(translations, callers.scope(caller))

    translator = Translator(link, detector)
    meter = RequestMeter(limits_of(settings), callers, link.metrics)
    metered = MeteredTranslator(translator, AlternativeFinder(link, translator), meter, link.opened)
    readings = Readings(link, partial(link.identify, callers), readings_bytes(settings))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        checking = nullcontext() if issuer is None else issuer.running()
        async with state.database, checking, link.running():
            yield

    app = create_root_app(
        [
            create_translate_router(metered, readings, keep),
            *_small_dialects(metered, readings),
        ],
        {
            "/v2": deepl_app(
                "v2",
                _deepl_translation(metered, readings, state),
            )
        },
        link.metrics,
        drain,
        SilentTracing(),
        max_body_bytes=settings.max_body_bytes,
        larger_bodies={},
        version=service.__version__,
        lifespan=lifespan,
    )
    return Front(app, link)


def _deepl_translation(metered: MeteredTranslator, readings: Readings, state: _State) -> APIRouter:
    """The routes of DeepL's dialect that translate."""
    return deepl.create_router(metered, readings, state.glossaries, Memories(state.memories))


def _small_dialects(metered: MeteredTranslator, readings: Readings) -> list[APIRouter]:
    """The routes of small dialects that translate."""
    return [each.create_router(metered, readings) for each in (apertium, web_pages, google)]


@asynccontextmanager
async def running(
    settings: Settings, load: LoadModel = load_model, decode_socket: Path | None = None
) -> AsyncIterator[Service]:
    """A service with a running lifespan and loaded bundles, without an HTTP server."""
    built = build(settings, load, decode_socket)
    async with built.app.router.lifespan_context(built.app):
        await built.loaded.wait()
        yield built


def open_tracing(address: str) -> Tracing:
    """Tracing to an OTLP address over HTTP; a no-op for an empty address.

    Raises ``TracingUnavailable`` if the extra is not installed.
    """
    if not address:
        return SilentTracing()
    try:
        from service.observability.otlp import OtlpTracing
    except ImportError as error:
        raise TracingUnavailable(
            "DRAGOMAN_TRACING is set, and OpenTelemetry is not installed; "
            "install the extra tracing, or unset it"
        ) from error
    return OtlpTracing.to_address(address)


def _admission(settings: Settings) -> Admission:
    waits: dict[Priority, float] = {
        "interactive": settings.max_queue_seconds,
        "bulk": settings.max_bulk_queue_seconds,
    }
    return Admission(settings.max_queue_tokens, ExpectedWait(waits))


def limits_of(settings: Settings) -> RequestLimits:
    """The limits of requests in the settings."""
    return RequestLimits(
        texts=settings.max_texts,
        characters=settings.max_characters,
        alternatives=settings.max_beam_size - 1,
        seconds=settings.request_seconds,
    )


def readings_bytes(settings: Settings) -> int:
    """Bytes of ``Readings``. None are kept where no results are."""
    return MOST_BYTES if settings.result_megabytes else 0


def policy_of(settings: Settings) -> AccessPolicy:
    """The operator's settings of access."""
    return AccessPolicy(
        settings.keys,
        settings.api_key_link,
        settings.admin_key,
        settings.requests_per_minute,
        settings.characters_per_month,
    )


def issuer_of(settings: Settings) -> OidcIssuer | None:
    """The issuer of access tokens, if there is one.

    Raises ``InvalidSetting`` if the extra is not installed.
    """
    if not settings.oidc_issuer:
        return None
    try:
        from service.api.oidc import OidcIssuer
    except ImportError as error:
        raise InvalidSetting(
            "DRAGOMAN_OIDC_ISSUER is set, and PyJWT is not installed; install the extra oidc, or "
            "unset it"
        ) from error
    return OidcIssuer(settings.oidc_issuer, settings.oidc_audience)


class _State:
    """The stores of persistent state, on one database."""

    def __init__(self, settings: Settings) -> None:
        self.database = Database.at(settings.state)
        self.keys = KeyStore(self.database)
        self.usage = UsageLedger(self.database)
        self.glossaries = GlossaryStore(self.database)
        self.suggestions = SuggestionStore(self.database)
        self.memories = MemoryStore(self.database)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with self.database:
            self.usage.start()
            try:
                yield
            finally:
                await self.usage.close()


def _frontend(settings: Settings) -> Frontend:
    return Frontend(
        characters=settings.max_characters,
        keys=settings.keys != "off",
        key_required=settings.keys == "required",
        suggestions=settings.suggestions,
        documents=settings.documents,
        extensions=SUPPORTED if settings.documents else (),
    )


@asynccontextmanager
async def _cancelled_at_the_end(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _prepare(detector: LinguaDetector, repository: ModelRepository) -> None:
    """Load the tables of all languages at once: which ones depends on how many there are.

    Blocks the whole process, even in a thread, so this is done before requests are served.
    """
    detector.prepare(Catalogue(tuple(model for model, _ in repository.bundles())).codes)


async def _watch(settings: Settings, metrics: Metrics, loaded: asyncio.Event) -> None:
    """Add the metrics of GPUs once the models are loaded. Runs as a background task."""
    await loaded.wait()
    await asyncio.to_thread(watch_devices, settings, metrics)


async def _load_all(repository: ModelRepository, reloader: Reloader, loaded: asyncio.Event) -> None:
    await reloader.reload("start")
    loaded.set()
    try:
        names = ", ".join(model.name for model in repository.catalogue.models)
        logger.info("ready", extra={"models": names})
    except NotReady as error:
        logger.error("not ready: %s", error)
