"""Backend interface between the engine and a model: encode, step, and their batch types.

Shape legend, used throughout ``engine`` and ``runtime``:
    B  sentences in the batch    K  rows of a sentence (maximum over the batch)
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

EMPTY_ROW = -1
"""Parent of an empty row, which only pads the batch to the widest sentence."""

BARRED = np.float32(-1e9)
"""Logit bias of a forbidden token. Finite, because infinities could produce NaN."""


NO_CANDIDATE = np.float32(-5e8)
"""A sum of log-probabilities on the device is above this."""


class DeviceLost(Exception):
    """The device cannot be used any more by this process; only another process may use it."""


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
    """Changes to ``E`` single logits before the softmax.

    A positive logit is divided by its penalty, a negative one multiplied by it (1 changes nothing).
    Then the bias is added. No logit occurs twice.
    """

    rows_E: IntArray
    """``sentence * K + row``."""
    token_ids_E: IntArray
    penalties_E: FloatArray
    biases_E: FloatArray


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Extend every row of the sentences in slots 0 … B − 1 by one token.

    Row ``k`` continues the prefix of row ``parents_BK[b, k]`` of its sentence, appends
    ``tokens_BK[b, k]`` at position ``positions_B[b]``, and gets the ``num_candidates`` likeliest
    next tokens. The backend keeps its cached keys and values consistent with the parents.
    """

    parents_BK: IntArray
    tokens_BK: IntArray
    positions_B: IntArray
    num_candidates: int
    edits: Edits | None = None
    asked_BK: IntArray | None = None
    """One more token of each row whose log-probability is returned."""
    scores: bool = True
    """Whether log-probabilities are needed, or only the order of candidates."""
    attention: bool = False
    """Whether to return the attention of each row."""

    @property
    def rows(self) -> int:
        """Number of rows that continue a prefix."""
        return int(np.count_nonzero(self.parents_BK >= 0))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Result of a step. Valid until the next call of the backend, which may reuse the memory.

    Rows with parent ``EMPTY_ROW`` have undefined values.
    """

    token_ids_BKN: NDArray[np.int64]
    log_probs_BKN: FloatArray
    """Log-probabilities of each row's best next tokens, best first, without the row's own sum.
    Without ``scores``, any numbers in the same order."""
    asked_log_probs_BK: FloatArray
    """Log-probabilities of ``asked_BK``; undefined without it."""
    attention_BKS: FloatArray | None = None
    """The last layer's attention to the source, averaged over heads, if requested."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How many of the usual shapes of a batch have run, and in how many seconds."""

    done: int
    shapes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Size and limit of the key/value cache of all sentences, in bytes."""

    taken: int
    limit: int


class Backend(Protocol):
    """Owns the model's weights and its key/value memory, addressed by slot and row.

    Called from one thread only. The slots in use are always the first ones: new sentences get the
    next slots, and when a sentence leaves, the last one moves into its slot. After a failed call
    the backend must be usable for sentences encoded later. Sentences of the failed call are not
    continued.
    """

    limits: Limits

    def encode(self, batch: EncodeBatch) -> None:
        """Encode sentences into their slots; the first row of each holds the empty prefix.

        A failure leaves sentences in other slots unchanged.
        """

    def step(self, batch: StepBatch) -> Candidates:
        """Extend the rows of the batch. Prefixes of rows outside the batch are discarded."""

    def move(self, origin: int, slot: int) -> None:
        """Move the sentence in slot ``origin``, the last in use, to ``slot``."""

    def cache_use(self) -> CacheUse:
        """Size of the key/value cache after the last call. Cheap."""

    def check(self) -> None:
        """Raise ``DeviceLost`` if the device is lost. Waits for its work."""

    def reserve(self) -> None:
        """Run the largest batch of usual lengths, which allocates the memory that it needs.

        For a backend without sentences, on any thread. Raises ``MemoryError``.
        """

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        """Run the batches of usual sizes and lengths, each once, for at most about ``seconds``.

        Encodes of at most ``padded_tokens`` source tokens. For a backend without sentences, on the
        thread that decodes later: there alone, captured graphs are replayed.
        """

    def close(self) -> None:
        """Free weights and memory. No method may be called afterwards."""


@dataclass(frozen=True, slots=True)
class Beam:
    """A sentence's beam search on the device."""

    rows: int
    min_length: int
    bar_unk: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """Sentences for any free slots, with their beams."""

    slots: Sequence[int]
    sources: Sequence[tuple[int, ...]]
    beams: Sequence[Beam]


@dataclass(frozen=True, slots=True)
class Launch:
    """Extend the sentences in some slots by one token, from the state on the device."""

    slots: NDArray[np.int64]
    rows: int
    """Rows of all beams of these sentences."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Best candidates of the launch before the last one, by slot. Valid until the next launch.

    Axis R has the ``2 * rows_per_slot`` best candidates of a sentence, best first. What the device
    has ranked for slots that were not launched means nothing.
    """

    places_PR: NDArray[np.int64]
    """Row times ``candidates``, and the number of the candidate of that row."""
    candidates: int
    tokens_PR: NDArray[np.int64]
    sums_PR: FloatArray
    """Sums of log-probabilities; not above ``NO_CANDIDATE`` where there is no candidate."""


class BeamBackend(Protocol):
    """A ``Backend`` that keeps the state of each beam search on the device.

    A slot is free as soon as its sentence is not launched again. A launch returns what the launch
    before it has ranked, so that the device computes while the host reads.
    """

    limits: Limits

    def encode(self, batch: Admission) -> None:
        """Encode sentences into their slots. A failure leaves other slots unchanged."""

    def step(self, batch: Launch) -> Ranked:
        """Launch a step, and return the record of the step before it."""

    def cache_use(self) -> CacheUse: ...

    def check(self) -> None: ...

    def reserve(self) -> None: ...

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """Attention weights of every head and layer for one source and target, and its probabilities.

    Source positions include ``eos``. At target position ``t`` the decoder input is token ``t`` of
    ``bos`` + target, and the prediction is token ``t`` of target + ``eos``. Each row of a map is
    the attention distribution of one position and sums to 1.
    """

    encoder_LHSS: FloatArray
    decoder_LHTT: FloatArray
    """Causal: a position attends to itself and earlier positions. No layers with SSRU."""
    cross_LHTS: FloatArray
    log_probs_T: FloatArray
    """Log-probability of each target token, and of ``eos`` after them."""
    entropies_T: FloatArray | None = None
    """Entropy in nats of the distribution of each of them; ``None`` if the model has none."""


class TeacherForced(Protocol):
    """Teacher-forced pass over a given source and target. Usable from several threads."""

    def run(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        """Run one sentence. ``source_ids`` ends with ``eos``; ``target_ids`` has neither ``bos``
        nor ``eos`` and may be empty. Both fit the model's limits."""

    def close(self) -> None:
        """Free weights and memory. No method may be called afterwards."""
