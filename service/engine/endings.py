"""Finished hypotheses of one search, and its result."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis

Trace = Callable[[int, int], tuple[int, ...]]
"""The tokens that a row held when it had a number of tokens."""


class Ending(NamedTuple):
    """A hypothesis of a row and one more token."""

    score: float
    row: int
    token: int
    length: int
    """Tokens of the row."""
    reason: FinishReason


class Endings:
    """The hypotheses of a sentence that have finished."""

    __slots__ = ("_endings", "_eos_id", "_options", "_scores", "needed")

    def __init__(self, options: DecodingOptions, eos_id: int) -> None:
        self._options, self._eos_id = options, eos_id
        self._endings: list[Ending] = []
        self._scores: list[float] = []
        """Of all endings, ascending."""
        self.needed = -math.inf
        """Score of the ``num_hypotheses``-th best finished hypothesis; −∞ with fewer of them."""

    def __len__(self) -> int:
        return len(self._endings)

    def add(
        self, row: int, token: int, length: int, log_prob: float, coverage: float | None = None
    ) -> None:
        """Add the hypothesis of a row of ``length`` tokens and ``token``, and their ``log_prob``.

        ``coverage`` is added to the score; it is ``None`` without constraints.
        """
        score = math.nan
        if self._options.needs_scores(coverage is not None):
            score = self._options.normalised(log_prob, length + 1) + (coverage or 0.0)
        ended = token == self._eos_id
        reason = FinishReason.COMPLETE if ended else FinishReason.LENGTH
        self._endings.append(Ending(score, row, token, length, reason))
        insort(self._scores, score)
        wanted = self._options.num_hypotheses
        if len(self._scores) >= wanted:
            self.needed = self._scores[-wanted]

    def add_cut(self, row: int, length: int, log_prob: float, coverage: float) -> None:
        """Add a row of ``length`` tokens that has no allowed next token."""
        score = self._options.normalised(log_prob, length) + coverage
        insort(self._scores, score)
        self._endings.append(Ending(score, row, self._eos_id, length, FinishReason.LENGTH))

    def decoded(self, trace: Trace) -> Decoded:
        """The best hypotheses, whose tokens ``trace`` looks up; there must be one."""
        options = self._options
        ranked = sorted(self._endings, key=lambda ending: ending.score, reverse=True)
        best, remaining = ranked[: options.num_hypotheses], ranked[options.num_hypotheses :]
        if options.all_finished:
            best += [each for each in remaining if each.reason is FinishReason.COMPLETE]
        hypotheses = (Hypothesis(self._tokens(each, trace), each.score) for each in best)
        return Decoded(tuple(hypotheses), best[0].reason)

    def _tokens(self, ending: Ending, trace: Trace) -> tuple[int, ...]:
        before = trace(ending.row, ending.length)
        return before if ending.token == self._eos_id else (*before, ending.token)
