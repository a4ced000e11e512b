from __future__ import annotations

import numpy as np
import pytest

from service.runtime.backend import Candidates, EncodeBatch, FloatArray, Limits, StepBatch
from service.runtime.scripted import ScriptedBackend

LIMITS = Limits(slots=2, rows_per_slot=2, source_length=4, target_length=8)
BOS = 1


def spelling_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Likeliest is the sum of everything seen; the rest follows in order."""
    log_probs = -np.arange(1, 9, dtype=np.float32)
    log_probs[(sum(source) + sum(prefix)) % 8] = 0
    return log_probs


def step(
    backend: ScriptedBackend,
    rows: list[int],
    parents: list[int],
    tokens: list[int],
    positions: list[int],
) -> Candidates:
    rows_N, parents_N, tokens_N, positions_N = np.array(
        [rows, parents, tokens, positions], np.int32
    )
    return backend.step(StepBatch(rows_N, parents_N, tokens_N, positions_N, num_candidates=3))


def test_candidates_are_the_best_of_each_row_in_order() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch([0, 1], [(2,), (3,)]))
    candidates = step(backend, [0, 2], [0, 2], [BOS, BOS], [0, 0])
    assert candidates.token_ids_NK.tolist() == [[3, 0, 1], [4, 0, 1]]
    assert candidates.log_probs_NK.tolist() == [[0, -1, -2], [0, -1, -2]]
    assert candidates.token_ids_NK.dtype == np.int32
    assert candidates.log_probs_NK.dtype == np.float32


def test_rows_continue_the_prefixes_of_their_parents() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch([0], [(2,)]))
    step(backend, [0], [0], [BOS], [0])
    step(backend, [0, 1], [0, 0], [3, 4], [1, 1])
    step(backend, [0, 1], [1, 0], [5, 6], [2, 2])
    assert backend.prefixes == {0: (BOS, 4, 5), 1: (BOS, 3, 6)}


def test_a_slot_encoded_again_starts_anew() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch([0], [(2,)]))
    step(backend, [0], [0], [BOS], [0])
    backend.encode(EncodeBatch([0], [(4,)]))
    assert step(backend, [0], [0], [BOS], [0]).token_ids_NK[0, 0] == 5


@pytest.mark.parametrize(
    ("rows", "parents", "positions", "complaint"),
    [
        ([0, 0], [0, 0], [0, 0], "two hypotheses in one row"),
        ([0, 1], [0, 2], [0, 0], "left its sentence"),
        ([0, 2], [0, 2], [0, 1], "does not follow its prefix"),
    ],
)
def test_a_batch_that_makes_no_sense_is_our_bug(
    rows: list[int], parents: list[int], positions: list[int], complaint: str
) -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch([0, 1], [(2,), (3,)]))
    with pytest.raises(AssertionError, match=complaint):
        step(backend, rows, parents, [BOS, BOS], positions)
