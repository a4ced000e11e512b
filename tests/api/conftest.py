"""Fixtures: the whole service in process, with models that upper-case their input."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.bootstrap import Service, running
from service.settings import Settings
from tests.support.asgi import client_of, connected
from tests.support.loop_monitor import responsive_loop
from tests.support.toy import load_shouting, put_broken_bundle, put_bundle

__all__ = ["responsive_loop"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    bundles = tmp_path / "bundles"
    put_bundle(bundles, "shout-de-en", "de", "en")
    put_bundle(bundles, "shout-en-de", "en", "de")
    put_bundle(bundles, "shout-fr-en", "fr", "en")
    put_broken_bundle(bundles, "broken")
    return Settings(
        bundles=bundles,
        slots=8,
        max_beam_size=4,
        state=tmp_path / "state",
        max_queue_tokens=2000,
        max_texts=60,
        max_characters=5000,
        max_body_bytes=64 * 1024,
    )


@pytest.fixture
async def service(settings: Settings) -> AsyncIterator[Service]:
    async with running(settings, load_shouting) as service:
        yield service


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service.app) as client:
        yield client


@pytest.fixture
async def suggesting(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with connected(settings, suggestions=True) as client:
        yield client
