"""Finished hypotheses of one search, and its result."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from operator import itemgetter

from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis

Trace = Callable[[int, int], tuple[int, ...]]
"""Returns the tokens that a row held at a length. Arguments: the row, the length."""


Ending = tuple[float, int, int, int, FinishReason]
"""Score, row, token behind the row, number of the row's tokens, and reason of a hypothesis."""


class Endings:
    """The hypotheses of a sentence that have finished."""

    __slots__ = ("_endings", "_eos_id", "_options", "_scored", "_scores", "_wanted", "needed")

    def __init__(self, options: DecodingOptions, eos_id: int) -> None:
        self._options, self._eos_id = options, eos_id
        self._scored, self._wanted = options.needs_scores(False), options.num_hypotheses
        self._endings: list[Ending] = []
        self._scores: list[float] = []
        """Scores of all endings, ascending."""
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
        if self._scored or coverage is not None:
            score = self._options.normalised(log_prob, length + 1) + (coverage or 0.0)
        ended = token == self._eos_id
        reason = FinishReason.COMPLETE if ended else FinishReason.LENGTH
        self._endings.append((score, row, token, length, reason))
        insort(self._scores, score)
        if len(self._scores) >= self._wanted:
            self.needed = self._scores[-self._wanted]

    def add_cut(self, row: int, length: int, log_prob: float, coverage: float) -> None:
        """Add a row of ``length`` tokens that has no allowed next token."""
        score = self._options.normalised(log_prob, length) + coverage
        insort(self._scores, score)
        self._endings.append((score, row, self._eos_id, length, FinishReason.LENGTH))

    def decoded(self, trace: Trace) -> Decoded:
        """The best hypotheses, whose tokens ``trace`` looks up; there must be one."""
        ranked = sorted(self._endings, key=itemgetter(0), reverse=True)
        best = ranked[: self._wanted]
        if self._options.all_finished:
            further = ranked[self._wanted :]
            best += [each for each in further if each[-1] is FinishReason.COMPLETE]
        return Decoded(tuple([self._hypothesis(each, trace) for each in best]), best[0][-1])

    def _hypothesis(self, ending: Ending, trace: Trace) -> Hypothesis:
        score, row, token, length, _ = ending
        before = trace(row, length)
        return Hypothesis(before if token == self._eos_id else (*before, token), score)
