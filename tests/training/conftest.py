"""Fixtures of the training tests."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext

import pytest

from training.evaluation import comparison, scores


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer resamples, for tests that do not check confidence."""
    monkeypatch.setattr(scores, "RESAMPLES", 20)
    for test in comparison.SAMPLES:
        monkeypatch.setitem(comparison.SAMPLES, test, 20)


@pytest.fixture(scope="module")
def context(request: pytest.FixtureRequest) -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # An optimiser imports torch's compiler, which takes longer than a whole run here.
    context.set_forkserver_preload([request.module.__name__, "torch._dynamo"])
    return context


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Replaces the named commands by ones that only append their names to the list returned."""

    def replaced(*names: str) -> list[str]:
        performed: list[str] = []
        for name in names:
            monkeypatch.setattr(
                f"training.commands.{name}.perform", lambda _, name=name: performed.append(name)
            )
        return performed

    return replaced
