"""Fixtures of the training tests."""

from __future__ import annotations

import pytest

from training.evaluation import comparison, scores


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer resamples, for tests that do not check confidence."""
    monkeypatch.setattr(scores, "RESAMPLES", 20)
    for test in comparison.SAMPLES:
        monkeypatch.setitem(comparison.SAMPLES, test, 20)
