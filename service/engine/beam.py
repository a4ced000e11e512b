"""Beam search over one sentence: pure bookkeeping, no model and no clock.

The definition is CTranslate2's. At every step the candidates of all live rows compete
by summed log-probability, and the best ``2 * beam_size`` of them are ranked:

- an ending among the first ``beam_size`` ranks is a finished hypothesis; further down
  it is dropped;
- the first ``beam_size`` others, in order of rank, are the next live rows;
- the search stops when ``beam_size`` hypotheses have finished. If ``length_penalty`` is
  0 it stops once the first rank has been an ending and ``num_hypotheses`` have finished;
- at ``max_decoding_length`` each of the first ``beam_size`` ranks is a hypothesis, ended
  or not, and the search stops.

A hypothesis scores ``sum of log_probs / T**length_penalty`` over its ``T`` tokens, its
``eos`` among them; the best ``num_hypotheses`` are the result. A beam of one is greedy
search: its first rank either ends the search or is the only live row.

Sums are float32. Equal sums rank by row, then by the model's own order of candidates;
equal scores by which came first. So a result depends on the sentence's own candidates
and on nothing else.

A beam never moves tensors. It is shown the best continuations of its live rows
and answers which rows to continue from which parents; see ``runtime.backend``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis
from service.runtime.backend import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Node:
    """The last step of a prefix. Prefixes share their past, so forking one is free."""

    token_id: int
    parent: Node | None
    log_prob: float
    """Of the whole prefix; a float32 value."""


@dataclass(frozen=True, slots=True)
class _End:
    node: Node
    score: float
    reason: FinishReason


class Beam:
    """The hypotheses of one sentence. Row ``i`` of the sentence holds ``live[i]``."""

    def __init__(self, options: DecodingOptions, bos_id: int, eos_id: int) -> None:
        self.options = options
        self.eos_id = eos_id
        self.live: list[Node] = [Node(bos_id, None, 0.0)]
        self.parents: list[int] = [0]
        self.length = 0
        self.finished: list[_End] = []
        self._likeliest_ended = False

    @property
    def num_candidates(self) -> int:
        # Each live row may lose one candidate to end-of-sentence, so twice the
        # beam always leaves enough to refill it.
        return 2 * self.options.beam_size

    @property
    def done(self) -> bool:
        # With a vocabulary smaller than the beam there may be nothing left to extend.
        if self.length >= self.options.max_decoding_length or not self.live:
            return True
        if self.options.length_penalty == 0:
            return self._likeliest_ended and len(self.finished) >= self.options.num_hypotheses
        return len(self.finished) >= self.options.beam_size

    def advance(self, token_ids_NK: IntArray, log_probs_NK: FloatArray) -> None:
        """Choose the next live rows from the candidates of the current ones."""
        size = self.options.beam_size
        sums_N1 = np.array([[node.log_prob] for node in self.live], np.float32)
        totals_NK = sums_N1 + log_probs_NK
        best = np.argsort(-totals_NK, axis=None, kind="stable")[: self.num_candidates]
        rows, columns = np.unravel_index(best, totals_NK.shape)

        self.length += 1
        last = self.length == self.options.max_decoding_length
        live: list[Node] = []
        parents: list[int] = []
        for rank, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            token_id = int(token_ids_NK[row, column])
            node = Node(token_id, self.live[row], float(totals_NK[row, column]))
            ended = token_id == self.eos_id
            if rank < size and (ended or last):
                self._finish(node, FinishReason.COMPLETE if ended else FinishReason.LENGTH)
                self._likeliest_ended |= rank == 0
            elif not ended and not last and len(live) < size:
                live.append(node)
                parents.append(row)
        self.live, self.parents = live, parents

    def result(self) -> Decoded:
        """The best hypotheses of a search that is done."""
        best = sorted(self.finished, key=lambda end: end.score, reverse=True)
        best = best[: self.options.num_hypotheses]
        return Decoded(
            tuple(Hypothesis(self._trace(end.node), end.score) for end in best),
            best[0].reason,
        )

    def _finish(self, node: Node, reason: FinishReason) -> None:
        score = node.log_prob / float(self.length**self.options.length_penalty)
        self.finished.append(_End(node, score, reason))

    def _trace(self, end: Node) -> tuple[int, ...]:
        token_ids: list[int] = []
        node: Node | None = end
        while node is not None and node.parent is not None:
            if node.token_id != self.eos_id:
                token_ids.append(node.token_id)
            node = node.parent
        return tuple(reversed(token_ids))
