"""Fixture of the tests of batches: shards in which no sentence equals another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.data.shards import Shards

PAIRS = 120


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """Pair i has i + 10 as its first source token, so that batches identify their pairs."""
    rng = np.random.default_rng(1)
    pairs = [
        ((i + 10, *[4] * int(rng.integers(0, 12))), tuple([5] * int(rng.integers(1, 14))))
        for i in range(PAIRS)
    ]
    return Shards.write(tmp_path, pairs)
