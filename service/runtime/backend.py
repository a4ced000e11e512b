"""What the engine needs from a model, and nothing more.

Shape legend, used throughout ``engine`` and ``runtime``:
    B  sentences in the batch    K  rows of a sentence (the widest's)
    N  candidates per row        S  source positions
    L  layers                    H  heads                T  target positions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]

NOBODY = -1
"""The parent of a row that is only there because another sentence has more rows."""

BARRED = np.float32(-1e9)
"""A bias that keeps a token from being written. Finite, so that nothing becomes NaN."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacity of a loaded model: ``slots`` sentences of ``rows_per_slot`` hypotheses each."""

    slots: int
    rows_per_slot: int
    source_length: int
    target_length: int


@dataclass(frozen=True, slots=True)
class EncodeBatch:
    """Sentences for the slots ``first_slot``, ``first_slot + 1``, …"""

    first_slot: int
    sources: Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes to single logits, at ``E`` places, before they become probabilities.

    A logit is divided by its penalty if it is positive, multiplied by it if it is negative (1
    leaves it as it is), and then its bias is added. No place comes twice.
    """

    rows_E: IntArray
    """``sentence * K + row``."""
    token_ids_E: IntArray
    penalties_E: FloatArray
    biases_E: FloatArray


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Extend every row of the sentences in slots 0 … B − 1 by one token.

    Row ``k`` continues the prefix that row ``parents_BK[b, k]`` of its sentence held, appends
    ``tokens_BK[b, k]`` at position ``positions_B[b]``, and wants the ``num_candidates`` likeliest
    next tokens. Moving cached keys and values to match is the backend's business.
    """

    parents_BK: IntArray
    tokens_BK: IntArray
    positions_B: IntArray
    num_candidates: int
    edits: Edits | None = None
    asked_BK: IntArray | None = None
    """One more token of each row whose log-probability is wanted."""
    scores: bool = True
    """Whether log-probabilities matter, or only which candidate is best."""
    attention: bool = False
    """Whether to tell what each row looks at."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a step found. Valid until the next call of the backend, which may reuse the memory.

    Rows whose parent is ``NOBODY`` hold anything.
    """

    token_ids_BKN: NDArray[np.int64]
    log_probs_BKN: FloatArray
    """Of each row's best next tokens, best first; not yet added to the row's own. Without
    ``scores``, any numbers in the same order."""
    asked_log_probs_BK: FloatArray
    """Of ``asked_BK``; anything where nothing was asked."""
    attention_BKS: FloatArray | None = None
    """The last layer's attention to the source, averaged over heads, if it was wanted."""


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Bytes that the keys and values of all sentences take together, and may take."""

    taken: int
    limit: int


class Backend(Protocol):
    """Owns the model's weights and its key/value memory, addressed by slot and row.

    Called from one thread only. The slots in use are always the first ones: newcomers get the
    next, and when a sentence leaves, the last one moves into its slot. After a failed call the
    backend must be usable for sentences encoded from then on; those of the failed call are not
    continued.
    """

    limits: Limits

    def encode(self, batch: EncodeBatch) -> None:
        """Read sentences into their slots; the first row of each holds the empty prefix.

        If this fails, sentences in other slots go on as if it had not been called.
        """

    def step(self, batch: StepBatch) -> Candidates:
        """Extend the rows of the batch; prefixes of rows that are not in it are forgotten."""

    def move(self, origin: int, slot: int) -> None:
        """The sentence in slot ``origin``, the last in use, is in ``slot`` from here on."""

    def cache_use(self) -> CacheUse:
        """What keys and values take after the last call. Costs next to nothing."""

    def close(self) -> None:
        """Free weights and memory. Nothing is called afterwards."""


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """What every head of every layer looks at while one sentence is read and written.

    Source positions are those of the source, ``eos`` included. Target position ``t`` is where the
    decoder is fed token ``t`` of ``bos`` and the target, and predicts token ``t`` of the target and
    ``eos``. Each row of a map says how one position divides its attention, and sums to 1.
    """

    encoder_LHSS: FloatArray
    decoder_LHTT: FloatArray
    """Causal: a position looks at itself and what is before it."""
    cross_LHTS: FloatArray
    log_probs_T: FloatArray
    """Of each token of the target, and of ``eos`` after it."""


class TeacherForced(Protocol):
    """A pass over a source and a target that are both given. Usable from several threads."""

    def run(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        """Look at one sentence. ``source_ids`` ends with ``eos``; ``target_ids`` has neither
        ``bos`` nor ``eos`` and may be empty. Both fit the model's limits."""

    def close(self) -> None:
        """Free weights and memory. Nothing is called afterwards."""
