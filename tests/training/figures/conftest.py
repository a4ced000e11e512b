"""Fixture of the figure tests: a complete tiny run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.tiny_training import tiny_recipe
from training.cli import main
from training.evaluation import scores
from training.recipes import RECIPES
from training.run_directory import RunDirectory


@pytest.fixture(scope="package")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDirectory]:
    """Prepared, trained for some steps, averaged and evaluated."""
    directory = tmp_path_factory.mktemp("figures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", tiny_recipe)
        patch.setattr(scores, "RESAMPLES", 20)
        for hop in ("prepare", "train", "average", "evaluate"):
            assert main([hop, "tiny", "--runs", str(directory)]) == 0
    yield RunDirectory(directory / "tiny")
