"""Activation ranges of linear layers' inputs, the calibration of static int8 quantisation.

Ranges are fixed once, from real sentences. So a product needs no pass over its input to find the
maximum, and the rounding of a sentence does not depend on its batch neighbours. Inputs are named
after their place in the network (``decoder.2.cross``). Matrices with the same input share a name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.reference.transformer import FloatArray, ReferenceTransformer

Pair = tuple[Sequence[int], Sequence[int]]
"""Source ids ending with ``eos``, and decoder input ids: ``bos``, then target ids."""

Ranges = dict[str, float]
"""The largest absolute value of each input."""


def calibrate(network: ReferenceTransformer, pairs: Sequence[Pair]) -> Ranges:
    """Ranges over teacher-forced passes. Raises ``ValueError`` without pairs."""
    if not pairs:
        raise ValueError("calibration needs at least one pair of sentences")
    ranges: Ranges = {}

    def watch(name: str, values: FloatArray) -> None:
        ranges[name] = max(ranges.get(name, 0.0), float(np.abs(values).max()))

    for source_ids, target_ids in pairs:
        memory = network.encode(source_ids, watch=watch)
        network.decode(network.source_keys_values(memory), target_ids, watch=watch)
    return ranges
