"""Fixtures: a service that requires keys, for DeepL's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.server import serving
from tests.support.keys import add_key

BUNDLES = Path(__file__).parents[2] / "bundles"
KEY = "a-key"
POOR = "a-key-with-little-left"


@pytest.fixture(scope="session")
def deepl_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("state")
    asyncio.run(add_key(state, "tester", KEY))
    asyncio.run(add_key(state, "poor", POOR, characters_per_month=60))
    with serving(BUNDLES, SLOTS="16", STATE=str(state), API_KEYS="required") as (url, _):
        yield url


@pytest.fixture
def http(deepl_url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    with httpx.Client(base_url=deepl_url, headers=headers, timeout=60) as client:
        yield client
