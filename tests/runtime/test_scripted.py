from __future__ import annotations

import numpy as np
import pytest

from service.runtime.backend import Candidates, Edits, EncodeBatch, FloatArray, Limits, StepBatch
from tests.support.scripted import ScriptedBackend, log_softmax

LIMITS = Limits(slots=2, rows_per_slot=2, source_length=4, target_length=8)
BOS = 1


def spelling_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """The likeliest token is the sum of all tokens modulo 8; all other tokens follow in order."""
    logits = -np.arange(1, 9, dtype=np.float32)
    logits[(sum(source) + sum(prefix)) % 8] = 0
    return logits


def step(
    backend: ScriptedBackend,
    parents: list[list[int]],
    tokens: list[list[int]],
    positions: list[int],
    edits: Edits | None = None,
) -> Candidates:
    return backend.step(
        StepBatch(
            np.array(parents, np.int32),
            np.array(tokens, np.int32),
            np.array(positions, np.int32),
            num_candidates=3,
            edits=edits,
        )
    )


def test_candidates_are_the_best_tokens_of_each_row_in_order() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch(0, [(2,), (3,)]))
    candidates = step(backend, [[0], [0]], [[BOS], [BOS]], [0, 0])
    assert candidates.token_ids_BKN[:, 0].tolist() == [[3, 0, 1], [4, 0, 1]]
    expected = log_softmax(spelling_model((2,), (BOS,)))[[3, 0, 1]]
    assert candidates.log_probs_BKN[0, 0].tolist() == expected.tolist()
    assert candidates.log_probs_BKN.dtype == np.float32


def test_rows_continue_the_prefixes_of_their_parents() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch(0, [(2,)]))
    step(backend, [[0]], [[BOS]], [0])
    step(backend, [[0, 0]], [[3, 4]], [1])
    step(backend, [[1, 0]], [[5, 6]], [2])
    assert backend.prefixes == [{0: (BOS, 4, 5), 1: (BOS, 3, 6)}]


def test_move_puts_the_last_sentence_into_a_free_slot() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch(0, [(2,), (3,)]))
    step(backend, [[0], [0]], [[BOS], [BOS]], [0, 0])
    backend.move(1, 0)
    assert step(backend, [[0]], [[4]], [1]).token_ids_BKN[0, 0, 0] == 0
    backend.encode(EncodeBatch(1, [(4,)]))
    candidates = step(backend, [[0], [0]], [[0], [BOS]], [2, 0])
    assert candidates.token_ids_BKN[:, 0, 0].tolist() == [0, 5]


def test_edits_change_logits_before_the_softmax() -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch(0, [(2,)]))
    edits = Edits(
        np.array([0, 0], np.int32),
        np.array([3, 1], np.int32),
        np.array([1, 4], np.float32),
        np.array([-1e9, 0], np.float32),
    )
    candidates = step(backend, [[0]], [[BOS]], [0], edits)
    logits = spelling_model((2,), (BOS,))
    logits[3], logits[1] = -1e9, -8
    assert candidates.token_ids_BKN[0, 0].tolist() == [0, 2, 4]
    assert candidates.log_probs_BKN[0, 0, 0] == pytest.approx(log_softmax(logits)[0])


@pytest.mark.parametrize(
    ("parents", "positions", "complaint"),
    [
        ([[0], [-1]], [0, 0], "a sentence without a row"),
        ([[0], [0]], [0, 1], "does not follow its prefix"),
        ([[0], [0], [0]], [0, 0, 0], "were not encoded"),
    ],
)
def test_an_inconsistent_batch_raises_assertion_error(
    parents: list[list[int]], positions: list[int], complaint: str
) -> None:
    backend = ScriptedBackend(spelling_model, LIMITS)
    backend.encode(EncodeBatch(0, [(2,), (3,)]))
    with pytest.raises(AssertionError, match=complaint):
        step(backend, parents, [[BOS]] * len(parents), positions)
