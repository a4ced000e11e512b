from __future__ import annotations

import pytest

from training.evaluation import comparison, scores


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about how sure a score is."""
    monkeypatch.setattr(scores, "RESAMPLES", 20)
    for test in comparison.SAMPLES:
        monkeypatch.setitem(comparison.SAMPLES, test, 20)
