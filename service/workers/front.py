"""Builds the app of a worker: the short path before an app that passes requests on.

The owner builds the same path from the same settings, see ``service.bootstrap``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from starlette.types import ASGIApp

from service.api.access import AccessPolicy, Callers
from service.api.app import around_answers
from service.api.bounds import RequestLimits
from service.api.deepl import translate as deepl
from service.api.draining import Drain
from service.api.libretranslate import translate as libretranslate
from service.api.metering import RequestMeter
from service.api.recent_readings import MOST_BYTES, RecentReadings
from service.api.short_path import ShortForm, ShortPath
from service.observability.tracing import SilentTracing
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore
from service.translation.detection import LinguaDetector
from service.translation.text_reader import TextReader
from service.workers.decode_messages import socket_beside
from service.workers.owner_link import OpenModel, OwnerLink, open_tokenizers

SHORT_FORMS: Mapping[str, ShortForm] = MappingProxyType(
    {"/translate": libretranslate.TranslateForm(), "/v2/translate": deepl.TranslateForm()}
)
"""Paths of ``ShortPath``."""


@asynccontextmanager
async def open_front(
    settings: Settings,
    owner: Path,
    app: ASGIApp,
    drain: Drain,
    open_model: OpenModel = open_tokenizers,
) -> AsyncIterator[ASGIApp]:
    """The app of a worker: plain requests by ``ShortPath``, all others by ``app``.

    ``owner`` is the socket of the owner's requests.
    """
    if settings.tracing:
        # Spans of the engine belong to those of the request, which the owner has.
        yield app
        return
    detector = LinguaDetector()
    link = OwnerLink(socket_beside(owner), detector.prepare, open_model)
    database = Database(settings.state / FILE_NAME)
    callers = Callers(policy_of(settings), KeyStore(database))
    async with database, link.running():
        yield ShortPath(
            app,
            forms=SHORT_FORMS,
            meter=RequestMeter(limits_of(settings), callers, link.metrics),
            reader=TextReader(detector),
            models=link,
            translate=link.translate,
            around=around_answers(link.metrics, drain, SilentTracing()),
            recent=readings_of(settings),
            serves=link.serves,
        )


def limits_of(settings: Settings) -> RequestLimits:
    """The limits of requests in the settings."""
    return RequestLimits(
        texts=settings.max_texts,
        characters=settings.max_characters,
        alternatives=settings.max_beam_size - 1,
        seconds=settings.request_seconds,
    )


def readings_of(settings: Settings) -> RecentReadings:
    """None are kept where no results are."""
    return RecentReadings(MOST_BYTES if settings.result_megabytes else 0)


def policy_of(settings: Settings) -> AccessPolicy:
    """The operator's settings of access."""
    return AccessPolicy(
        settings.api_keys,
        settings.api_key_link,
        settings.admin_key,
        settings.requests_per_minute,
        settings.characters_per_month,
    )
