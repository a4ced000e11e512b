from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.bundle.manifest import Dimensions
from service.runtime.backend import Limits
from service.runtime.caches import SelfCache

DIMENSIONS = Dimensions(
    encoder_layers=1, decoder_layers=2, width=4, heads=2, feed_forward=4, vocabulary_size=9
)
LIMITS = Limits(slots=2, rows_per_slot=2, source_length=8, target_length=8)


def test_a_cache_that_ran_out_of_memory_while_it_grew_is_still_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = SelfCache(DIMENSIONS, LIMITS)
    zeros, calls = np.zeros, 0

    def short(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryError
        return zeros(*arguments, **named)

    parents_BK = np.zeros((1, 1), np.int64)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(np, "zeros", short)
        cache.append(parents_BK)
    _, bias_B1KC = cache.append(parents_BK)
    assert {array.shape[2] for _, array in cache.views(1)} == {bias_B1KC.shape[3]}
