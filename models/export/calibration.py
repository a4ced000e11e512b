"""Activation ranges of linear layers' inputs, the calibration of static int8 quantisation.

Ranges are fixed once, from real sentences. So a product needs no pass over its input to find the
maximum, and the rounding of a sentence does not depend on its batch neighbours. A range is the one
with the least mean squared error of quantised inputs: a smaller one rounds all values more finely
and clips a few. Inputs are named after their place in the network (``decoder.2.cross``). Matrices
with the same input share a name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from models.export.errors import NotFinite
from models.reference.transformer import FloatArray, ReferenceTransformer

Pair = tuple[Sequence[int], Sequence[int]]
"""Source ids ending with ``eos``, and decoder input ids: ``bos``, then target ids."""

Ranges = dict[str, tuple[float, float]]
"""The lowest and the highest value of each input that are not clipped; 0 is between them."""

LEVELS = 255
"""Steps from the lowest to the highest value."""
_BINS = 4096
_SHARES = np.linspace(0.5, 1, 26).tolist()
"""Candidates, as shares of the lowest and the highest value. They are never clipped to less than
half: the mean does not show how much a network depends on few large values."""


def calibrate(network: ReferenceTransformer, pairs: Sequence[Pair]) -> Ranges:
    """Ranges over teacher-forced passes.

    Raises ``ValueError`` without pairs, and ``NotFinite`` if the network overflows.
    """
    if not pairs:
        raise ValueError("calibration needs at least one pair of sentences")
    inputs: dict[str, Histogram] = {}

    def watch(name: str, values: FloatArray) -> None:
        if not np.isfinite([values.min(), values.max()]).all():
            raise NotFinite(f"the network computes values at {name} that are not finite")
        inputs.setdefault(name, Histogram()).add(values)

    for source_ids, target_ids in pairs:
        memory = network.encode(source_ids, watch=watch)
        network.decode(network.source_keys_values(memory), target_ids, watch=watch)
    return {name: histogram.best_range() for name, histogram in inputs.items()}


class Histogram:
    """Counts of values. Its bins become twice as wide when a value is beyond the last of them."""

    def __init__(self) -> None:
        self._lowest = self._highest = 0.0
        self._limit = 0.0
        """End of the last bin; the first begins at its opposite."""
        self._counts = np.zeros(_BINS, np.int64)

    def add(self, values: FloatArray) -> None:
        self._lowest = min(self._lowest, float(values.min()))
        self._highest = max(self._highest, float(values.max()))
        largest = max(-self._lowest, self._highest)
        if not largest:
            # Zeros have no error in any range.
            return
        # A power of two, so that the bins do not depend on the order of values.
        self._limit = self._limit or 2.0 ** math.ceil(math.log2(largest))
        while largest > self._limit:
            self._limit *= 2
            pairs = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.pad(pairs, _BINS // 4)
        bins = np.floor(values.ravel() * np.float32(_BINS / 2 / self._limit)).astype(np.int32)
        # The limit itself is in the last bin.
        bins = np.minimum(bins + _BINS // 2, _BINS - 1)
        self._counts += np.bincount(bins, minlength=_BINS)

    def best_range(self) -> tuple[float, float]:
        """The range of the least squared error, both 0 without any value."""
        if not self._limit:
            return 0.0, 0.0
        used = np.flatnonzero(self._counts)
        centres, counts = (used + 0.5) * (2 * self._limit / _BINS) - self._limit, self._counts[used]

        def error(candidate: tuple[float, float]) -> float:
            kept = quantised(centres, *step_and_zero(*candidate))
            return float(counts @ np.square(kept - centres))

        sides = ([end * share for share in _SHARES] for end in (self._lowest, self._highest))
        return min(itertools.product(*map(dict.fromkeys, sides)), key=error)


def step_and_zero(lowest: float, highest: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point of uint8 for a range. A range of nothing has any scale except zero."""
    step = np.float32((highest - lowest) / LEVELS or 1.0)
    return step, np.uint8(np.rint(-lowest / step))


def quantised(values: FloatArray, step: np.float32, zero: np.uint8) -> FloatArray:
    """The values rounded to the nearest numbers that uint8 can represent."""
    found: FloatArray = (np.clip(np.rint(values / step) + zero, 0, LEVELS) - zero) * step
    return found
