"""What the engine needs from a model, and nothing more.

Shape legend, used throughout ``engine`` and ``runtime``:
    N  rows in this step        K  candidates kept per row
    B  sentences in this encode S  source positions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacity of a loaded model: ``slots`` sentences of ``rows_per_slot`` hypotheses each."""

    slots: int
    rows_per_slot: int
    source_length: int
    target_length: int


@dataclass(frozen=True, slots=True)
class EncodeBatch:
    slots: list[int]
    sources: list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Extend every row by one token.

    Row ``rows[i]`` continues the prefix held by row ``parents[i]``, appends
    ``tokens[i]`` at ``positions[i]``, and wants the ``num_candidates`` likeliest
    next tokens. Moving cached keys and values to match is the backend's business.
    """

    rows_N: IntArray
    parents_N: IntArray
    tokens_N: IntArray
    positions_N: IntArray
    num_candidates: int


@dataclass(frozen=True, slots=True)
class Candidates:
    token_ids_NK: IntArray
    log_probs_NK: FloatArray
    """Of each row's best next tokens, best first; not yet added to the row's own."""


class Backend(Protocol):
    """Owns the model's weights and its key/value memory, addressed by slot and row.

    Called from one thread only. Nobody says that a slot is free: it is given to the
    next sentence by encoding it. After a failed call the backend must be usable for
    sentences encoded from then on; those of the failed call are not continued.
    """

    limits: Limits

    def encode(self, batch: EncodeBatch) -> None:
        """Read sentences into their slots; the first row of each holds the empty prefix.

        If this fails, sentences in other slots go on as if it had not been called.
        """

    def step(self, batch: StepBatch) -> Candidates:
        """Extend the rows of the batch; prefixes of rows that are not in it are forgotten."""

    def close(self) -> None:
        """Free weights and memory. Nothing is called afterwards."""
