"""Fixtures of tests that train in other processes: a fork server, and prepared data."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

import pytest

from tests.support.tiny_training import prepared
from training.run_directory import RunDirectory


@pytest.fixture(scope="module")
def context(request: pytest.FixtureRequest) -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # An optimiser imports torch's compiler, which takes longer than a whole run here.
    context.set_forkserver_preload([request.module.__name__, "torch._dynamo"])
    return context


@pytest.fixture(scope="module")
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The prepared data of the module's ``RECIPE``."""
    return prepared(tmp_path_factory.mktemp("runs"), request.module.RECIPE)
