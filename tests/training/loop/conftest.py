"""Fixtures of tests that train in other processes: prepared data."""

from __future__ import annotations

import pytest

from tests.support.tiny_training import prepared
from training.run_directory import RunDirectory


@pytest.fixture(scope="module")
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The prepared data of the module's ``RECIPE``."""
    return prepared(tmp_path_factory.mktemp("runs"), request.module.RECIPE)
