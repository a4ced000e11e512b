"""Fixtures of all tests."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

# Hypothesis imports this in the middle of the first test that needs it. Should the collector then
# report a task that failed, CPython 3.11 parses source for the traceback while it parses this
# module, and calls that a SystemError.
import hypothesis.internal.conjecture.optimiser  # noqa: F401
import pytest
from hypothesis import settings
from pydantic import SecretStr

import tests.support.postgres
import tests.support.redis
from tests.support.postgres import Postgres
from tests.support.redis import Redis

# The number is set before torch loads OpenMP. Networks of tests are too small for several threads,
# and each core has a process of pytest. Commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Services that tests start, for the same reason. The threads of a model wait for each other by
# spinning, and with several of them each start measures more variants of a step.
os.environ.setdefault("DRAGOMAN_THREADS", "1")

# A busy machine makes examples slow, not wrong. The same examples every time, so that a failure is
# the fault of what was changed; `--hypothesis-profile=elsewhere` looks for others.
settings.register_profile("dragoman", deadline=None, derandomize=True)
settings.register_profile("elsewhere", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=10_000)
settings.load_profile("dragoman")


@pytest.fixture(autouse=True)
def restored_process_state() -> Iterator[None]:
    """Restores logging and the switch interval, which commands change for the whole process."""
    root = logging.getLogger()
    handlers, level, interval = root.handlers[:], root.level, sys.getswitchinterval()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session")
def small_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MarianMT checkpoint of one layer with random weights. Tests change copies of it only."""
    from tests.support.checkpoints import write_marian

    directory = tmp_path_factory.mktemp("marian") / "Opus-MT_de en"
    write_marian(directory, encoder_layers=1, decoder_layers=1)
    return directory


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL server; tests that need it are skipped where it is not installed."""
    if reason := tests.support.postgres.missing():
        pytest.skip(reason)
    with tests.support.postgres.running() as server:
        yield server


@pytest.fixture
def postgres_address(postgres: Postgres) -> SecretStr:
    """The address of a database without tables."""
    return postgres.create()


@pytest.fixture
def redis() -> Iterator[Redis]:
    """A running Redis server; tests that need it are skipped where it is not installed."""
    if reason := tests.support.redis.missing():
        pytest.skip(reason)
    with tests.support.redis.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | SecretStr:
    """A file, and a database of a server: each test runs with both."""
    if request.param == "sqlite":
        return tmp_path / "dragoman.db"
    address: SecretStr = request.getfixturevalue("postgres_address")
    return address


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shouting_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """``dragoman translate`` uses the upper-casing model, and logs nothing."""
    from service.commands import lines, local
    from service.local_models import LocalModels
    from tests.support.toy import load_shouting

    for module in (lines, local):
        monkeypatch.setattr(module, "LocalModels", partial(LocalModels, load=load_shouting))
    monkeypatch.setattr(local, "configure", lambda *_: None)
