"""Fixtures: a service that requires keys, for DeepL's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.server import serving
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore

BUNDLES = Path(__file__).parents[2] / "bundles"
KEY = "a-key"
POOR = "a-key-with-little-left"


async def _add_keys(state: Path) -> None:
    async with Database(state / FILE_NAME) as database:
        keys = KeyStore(database)
        await keys.add("tester", KEY)
        await keys.add("poor", POOR, characters_per_month=60)


@pytest.fixture(scope="session")
def deepl_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(state=tmp_path_factory.mktemp("state"))
    asyncio.run(_add_keys(settings.state))
    with serving(BUNDLES, SLOTS="16", STATE=str(settings.state), API_KEYS="required") as (url, _):
        yield url


@pytest.fixture
def http(deepl_url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    with httpx.Client(base_url=deepl_url, headers=headers, timeout=60) as client:
        yield client
