"""Fixtures: the kind of client (synchronous or not), and a service with the committed bundles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.server import serving
from tests.client.support import KINDS, Kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(scope="session")
def bundles_url() -> Iterator[str]:
    with serving(Path(__file__).parents[2] / "bundles", SLOTS="16") as (url, _):
        yield url
