"""Decoding constraints of one sentence: logit edits, target prefix, sampling, coverage penalty.

A sentence with plain options has no ``Constraints`` and costs nothing here. ``Constraints`` keep
the token history and the attention of each row, edit logits before the softmax, and may replace
the choice of candidates: by a forced or biased prefix, or by sampling.

    K  rows    T  tokens written    N  candidates of a row    S  source positions
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.engine.sampling import draw, uniform
from service.engine.types import MOST_SAMPLED, DecodingOptions
from service.runtime.backend import BARRED, Edits, FloatArray, IntArray

Ranked = tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]
"""Rows, tokens and sums of the best candidates, best first."""

_DEAD = np.float32(-np.inf)


class Constraints:
    """Constraints of one sentence, from its first step to its last."""

    def __init__(
        self, options: DecodingOptions, source_length: int, eos_id: int, unk_id: int
    ) -> None:
        self.options = options
        self._forced = options.forced_tokens
        self._eos_id = eos_id
        self._always_barred = {s[0] for s in options.suppress_sequences if len(s) == 1}
        if options.disable_unk:
            self._always_barred.add(unk_id)
        self._sequences = [s for s in options.suppress_sequences if len(s) > 1]
        self._edits_logits = bool(
            self._always_barred
            or self._sequences
            or options.no_repeat_ngram_size
            or options.repetition_penalty != 1
        )
        self._written_KT = np.zeros((options.rows, 0), np.int32)
        self._coverage_KS = np.zeros((options.rows, source_length), np.float32)
        self._coverage_before_KS = self._coverage_KS
        """Coverage without the attention of the latest step."""
        self._diverged_K = np.zeros(options.rows, np.bool_)
        self._barred: dict[int, set[int]] = {}

    @classmethod
    def of(
        cls, options: DecodingOptions, source_length: int, eos_id: int, unk_id: int
    ) -> Constraints | None:
        """Constraints for these options, or ``None`` for plain beam search.

        The result is an instance of the class, or of ``AlternativeWords``.
        """
        if options.alternative_words is not None:
            return AlternativeWords(options, source_length, eos_id, unk_id)
        constraints = cls(options, source_length, eos_id, unk_id)
        needed = options.target_prefix or not constraints._of_a_prefix_only
        return constraints if needed else None

    @property
    def is_spent(self) -> bool:
        """Whether the remaining steps are plain beam search: the prefix is complete."""
        beyond = self._written_KT.shape[1] > len(self.options.target_prefix)
        return beyond and self._of_a_prefix_only

    @property
    def _of_a_prefix_only(self) -> bool:
        options = self.options
        return not (self._edits_logits or options.samples or options.coverage_penalty)

    @property
    def attends(self) -> bool:
        """Whether steps must return the attention of this sentence's rows."""
        return self.options.coverage_penalty != 0

    @property
    def requested_token(self) -> int | None:
        """Token whose log-probability the next step must return for every row, if any."""
        prefix, length = self.options.target_prefix, self._written_KT.shape[1]
        favoured = self._forced <= length < len(prefix)
        return prefix[length] if favoured else None

    @property
    def candidates(self) -> int:
        """Number of candidates that the next step must return for every row, at least."""
        completing = self.options.completions and self.requested_token is not None
        return MOST_SAMPLED if completing else self.options.sampled_from

    def edits(self, live_K: NDArray[np.bool_]) -> list[tuple[int, int, float, float]]:
        """Row, token, penalty and bias of each logit to change at the next step."""
        self._barred = {}
        edits: list[tuple[int, int, float, float]] = []
        too_short = self._written_KT.shape[1] < self.options.min_decoding_length
        if not (self._edits_logits or too_short):
            return edits
        for row in np.flatnonzero(live_K).tolist():
            written = self._written_KT[row].tolist()
            barred = self._barred[row] = set(self._always_barred)
            if too_short:
                barred.add(self._eos_id)
            barred.update(_after_repeated(written, self.options.no_repeat_ngram_size))
            barred.update(s[-1] for s in self._sequences if _ends_with(written, s[:-1]))
            edits += [(row, token, 1.0, float(BARRED)) for token in barred]
            if self.options.repetition_penalty != 1:
                penalty = self.options.repetition_penalty
                edits += [(row, token, penalty, 0.0) for token in set(written) - barred]
        return edits

    def choose(
        self,
        ids_KN: NDArray[np.int64],
        log_probs_KN: FloatArray,
        asked_log_probs_K: FloatArray,
        sums_K: FloatArray,
        ranks: int,
    ) -> Ranked:
        """The best candidates of the rows, without barred tokens and those with log-prob −∞."""
        log_probs_KN = self._allowed(ids_KN, log_probs_KN)
        prefix, length = self.options.target_prefix, self._written_KT.shape[1]
        if length < self._forced:
            # A forced token adds nothing to the sum.
            rows = np.flatnonzero(sums_K > _DEAD)
            return rows, np.full(len(rows), prefix[length]), np.zeros(len(rows), np.float32)
        if length < len(prefix) and self.options.completions:
            ids_KN, log_probs_KN = self._completed(ids_KN, log_probs_KN, asked_log_probs_K)
        elif length < len(prefix):
            ids_KN, log_probs_KN = self._favoured(ids_KN, log_probs_KN, asked_log_probs_K)
        if self.options.samples:
            return self._drawn(ids_KN, log_probs_KN, sums_K)
        totals = (sums_K[:, None] + log_probs_KN).ravel()
        order = np.argsort(-totals, kind="stable")[:ranks]
        rows, tokens, totals = order // ids_KN.shape[1], ids_KN.ravel()[order], totals[order]
        self._mark_diverged_positions(tokens)
        just_freed = length == self._forced > 0 and not self.options.begins_after_prefix
        if just_freed and not self.options.greedy:
            # An ending right after the forced prefix counts only if it is the best candidate.
            totals[1:][tokens[1:] == self._eos_id] = _DEAD
        return rows, tokens, totals

    def _allowed(self, ids_KN: NDArray[np.int64], log_probs_KN: FloatArray) -> FloatArray:
        """The log-probabilities with −∞ for barred tokens."""
        log_probs_KN = log_probs_KN.copy()
        for row, barred in self._barred.items():
            log_probs_KN[row, np.isin(ids_KN[row], list(barred))] = _DEAD
        return log_probs_KN

    def _mark_diverged_positions(self, ranked: NDArray[np.int64]) -> None:
        """Record which positions have diverged from a biased prefix.

        The flag belongs to the position, not to the row, as in CTranslate2. A row that changes
        position takes over the flag of its new position.
        """
        prefix, length = self.options.target_prefix, self._written_KT.shape[1]
        wanted = prefix[length] if length < len(prefix) else None
        for rank in range(len(self._diverged_K)):
            followed = rank < len(ranked) and ranked[rank] == wanted
            self._diverged_K[rank] |= not followed

    def follow(self, parents_K: IntArray, tokens_K: IntArray) -> None:
        """Replace each row by its parent's history plus one token; parent −1 is an empty row."""
        rows = self.options.rows
        origins_K = np.maximum(parents_K[:rows], 0)
        self._written_KT = np.concatenate(
            (self._written_KT[origins_K], tokens_K[:rows, None]), axis=1, dtype=np.int32
        )
        self._coverage_KS = self._coverage_KS[origins_K]

    def attend(self, attention_KS: FloatArray) -> None:
        """Add the attention of this step to the coverage of the rows."""
        self._coverage_before_KS = self._coverage_KS.copy()
        rows = min(len(self._coverage_KS), len(attention_KS))
        self._coverage_KS[:rows] += attention_KS[:rows, : self._coverage_KS.shape[1]]

    def coverage(self, row: int, *, stuck: bool = False) -> float:
        """Coverage penalty of a hypothesis that ends in ``row`` (Wu et al. 2016, equation 14).

        A ``stuck`` hypothesis got no token in the latest step, so the attention of that step is
        left out. Source positions without any attention do not count.
        """
        if not self.attends:
            return 0.0
        received_S = (self._coverage_before_KS if stuck else self._coverage_KS)[row]
        penalties = np.log(np.minimum(received_S[received_S > 0], np.float32(1)))
        return self.options.coverage_penalty * float(penalties.sum())

    def _favoured(
        self, ids_KN: NDArray[np.int64], log_probs_KN: FloatArray, asked_K: FloatArray
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Candidates where positions that followed the prefix give its next token a share β."""
        beta = self.options.prefix_bias_beta
        length = self._written_KT.shape[1]
        wanted = self.options.target_prefix[length]
        ids, log_probs = [], []
        for row in range(len(ids_KN)):
            row_ids = np.append(ids_KN[row], wanted)
            row_log_probs = np.append(log_probs_KN[row], _DEAD)
            if not self._diverged_K[row]:
                row_log_probs[row_ids == wanted] = _DEAD
                row_log_probs += np.float32(math.log1p(-beta))
                row_log_probs[-1] = math.log(math.exp(asked_K[row]) * (1 - beta) + beta)
            order = np.lexsort((row_ids, -row_log_probs))
            ids.append(row_ids[order])
            log_probs.append(row_log_probs[order])
        return np.stack(ids), np.stack(log_probs)

    def _completed(
        self, ids_KN: NDArray[np.int64], log_probs_KN: FloatArray, asked_K: FloatArray
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Candidates where the row that follows the prefix stays within it.

        It goes on with the next token of the prefix, or with one of the ``completions``. One row
        follows the prefix at most; others have completed it.
        """
        ids_KN, log_probs_KN = ids_KN[:, :MOST_SAMPLED], log_probs_KN[:, :MOST_SAMPLED]
        length = self._written_KT.shape[1]
        prefix = np.array(self.options.target_prefix)
        following_K = (self._written_KT[: len(ids_KN)] == prefix[:length]).all(axis=1)
        allowed = np.array(sorted(self.options.completions[length - self._forced]), np.int64)
        barred_KN = ~np.isin(ids_KN, allowed) | (ids_KN == prefix[length])
        log_probs_KN = np.where(following_K[:, None] & barred_KN, _DEAD, log_probs_KN)
        # The prefix goes on with a token that may not be written, too, as where it is forced.
        asked_K = np.where(asked_K < BARRED / 2, 0, asked_K)
        wanted_K = np.where(following_K, asked_K, _DEAD).astype(np.float32)
        ids_KN = np.column_stack((ids_KN, np.full(len(ids_KN), prefix[length])))
        return ids_KN, np.column_stack((log_probs_KN, wanted_K))

    def _drawn(
        self, ids_KN: NDArray[np.int64], log_probs_KN: FloatArray, sums_K: FloatArray
    ) -> Ranked:
        """One sampled candidate for every row; a row without candidates gets the sum −∞."""
        rows = np.arange(len(ids_KN))
        tokens = np.zeros(len(rows), np.int64)
        totals = np.full(len(rows), _DEAD, np.float32)
        for row in np.flatnonzero(sums_K > _DEAD).tolist():
            if not (log_probs_KN[row] > _DEAD).any():
                continue
            u = uniform(self.options.seed, row, self._written_KT.shape[1])
            choice = draw(ids_KN[row].astype(np.int32), log_probs_KN[row], self.options, u)
            tokens[row] = ids_KN[row, choice]
            totals[row] = sums_K[row] + log_probs_KN[row, choice]
        return rows, tokens, totals


class AlternativeWords(Constraints):
    """Search for the likeliest next words after the target prefix.

    A row is a word, or the beginning of one, and its sum is the log-probability of that. A word is
    complete as soon as a token begins the next word, and gets the probability of all such tokens
    together. Complete words are continued greedily, which leaves their sums as they are. Once all
    are complete, only the best ``num_hypotheses`` go on.
    """

    def __init__(
        self, options: DecodingOptions, source_length: int, eos_id: int, unk_id: int
    ) -> None:
        super().__init__(options, source_length, eos_id, unk_id)
        assert options.alternative_words is not None
        self._starts = np.array(sorted({*options.alternative_words.starts, eos_id}))
        self._closes = np.array(sorted(options.alternative_words.closes), np.int64)
        self._complete_K = np.zeros(options.rows, np.bool_)
        self._least = np.log(np.float64(options.min_alternative_expansion_prob) or 1e-30)

    @property
    def is_spent(self) -> bool:
        return False

    @property
    def candidates(self) -> int:
        begun = self._written_KT.shape[1] >= self._forced
        return MOST_SAMPLED if begun and not self._complete_K.all() else 0

    def choose(
        self,
        ids_KN: NDArray[np.int64],
        log_probs_KN: FloatArray,
        asked_log_probs_K: FloatArray,
        sums_K: FloatArray,
        ranks: int,
    ) -> Ranked:
        length = self._written_KT.shape[1]
        if length < self._forced:
            return super().choose(ids_KN, log_probs_KN, asked_log_probs_K, sums_K, ranks)
        # More candidates may have been asked for another sentence.
        ids_KN, log_probs_KN = ids_KN[:, :MOST_SAMPLED], log_probs_KN[:, :MOST_SAMPLED]
        log_probs_KN = self._allowed(ids_KN, log_probs_KN)
        log_probs_KN[sums_K == _DEAD] = _DEAD
        starts_KN = np.isin(ids_KN, self._starts)
        totals_KN = sums_K[:, None] + log_probs_KN
        if length == self._forced:
            # An ending is no word. After a text, the first token must not continue its last word.
            totals_KN[ids_KN == self._eos_id] = _DEAD
            goes_on = length > self.options.forced_prefix_length
            if goes_on and self._written_KT[0, -1] not in self._closes:
                totals_KN[~starts_KN] = _DEAD
            wanted = totals_KN
        else:
            wanted = self._words(ids_KN, log_probs_KN, starts_KN, totals_KN, sums_K)
        order = np.argsort(-wanted.ravel(), kind="stable")[:ranks]
        order = order[wanted.ravel()[order] >= self._least]
        rows, columns = np.divmod(order, ids_KN.shape[1])
        complete = starts_KN[rows, columns] | self._complete_K[rows]
        complete |= np.isin(self._written_KT[rows, -1], self._closes) if length else False
        complete &= length > self._forced
        if complete.all():
            order = order[: self.options.num_hypotheses]
        kept = len(order)
        self._complete_K[:] = True
        self._complete_K[:kept] = complete[:kept]
        return rows[:kept], ids_KN.ravel()[order], wanted.ravel()[order]

    def _words(
        self,
        ids_KN: NDArray[np.int64],
        log_probs_KN: FloatArray,
        starts_KN: NDArray[np.bool_],
        totals_KN: FloatArray,
        sums_K: FloatArray,
    ) -> FloatArray:
        """Sums of the words that each row becomes: complete by one token, or longer by others."""
        wanted_KN = totals_KN.copy()
        closed_K = self._complete_K | np.isin(self._written_KT[:, -1], self._closes)
        closed_K = closed_K[: len(ids_KN)]
        ending_KN = starts_KN | closed_K[:, None]
        wanted_KN[ending_KN] = _DEAD
        for row in np.flatnonzero(sums_K > _DEAD).tolist():
            ending_N = np.where(ending_KN[row], log_probs_KN[row], _DEAD)
            best = int(ending_N.argmax())
            if ending_N[best] == _DEAD:
                continue
            together = 0.0 if closed_K[row] else np.logaddexp.reduce(ending_N.astype(np.float64))
            # Rounding may exceed certainty.
            wanted_KN[row, best] = sums_K[row] + np.float32(min(0.0, together))
        return wanted_KN


def gather_edits(
    constraints: Sequence[Constraints | None],
    live_BK: NDArray[np.bool_],
    too_short_B: NDArray[np.bool_],
    eos_id: int,
) -> Edits | None:
    """Logit edits of a whole batch. Without constraints, only the minimum length applies."""
    rows = live_BK.shape[1]
    plain_B = np.array([c is None for c in constraints]) & too_short_B
    found = [
        (sentence * rows + row, eos_id, 1.0, float(BARRED))
        for sentence, row in np.argwhere(live_BK & plain_B[:, None]).tolist()
    ]
    for sentence, own in enumerate(constraints):
        if own is not None:
            found += [(sentence * rows + row, *edit) for row, *edit in own.edits(live_BK[sentence])]
    if not found:
        return None
    places, tokens, penalties, biases = zip(*found, strict=True)
    return Edits(
        np.array(places, np.int32),
        np.array(tokens, np.int32),
        np.array(penalties, np.float32),
        np.array(biases, np.float32),
    )


def _after_repeated(written: list[int], size: int) -> set[int]:
    """Tokens that would repeat an n-gram of ``size`` tokens."""
    if not size or len(written) < size:
        return set()
    begun = written[len(written) - size + 1 :]
    starts = range(len(written) - size + 1)
    return {
        written[start + size - 1] for start in starts if written[start : start + size - 1] == begun
    }


def _ends_with(written: list[int], tokens: tuple[int, ...]) -> bool:
    return len(written) >= len(tokens) and tuple(written[len(written) - len(tokens) :]) == tokens
