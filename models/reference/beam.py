"""Beam search of one sentence, written for reading: tests compare the engine with it.

The rules are CTranslate2's: of the best 2K candidates, endings among the first K are finished
hypotheses and the best K other candidates go on. The search ends when K hypotheses have finished,
or at the longest length allowed, where the first K candidates are taken as they are. Without a
length penalty it ends as soon as the best candidate has ended, since no other can overtake it.
Padding and ``bos`` are never candidates. ``eos`` cannot be the first token.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import DecodingDefaults, LengthNormalisation, SpecialIds


@dataclass(frozen=True, slots=True)
class Hypothesis:
    token_ids: tuple[int, ...]
    """Generated tokens without ``bos``, a forced prefix and ``eos``."""
    score: float
    """Sum of log-probabilities over ``norm_of`` its length; prefix and ``eos`` are counted."""


class Decoder(Protocol):
    """Next-token distribution over the prefixes of one sentence."""

    def start(self, source_ids: Sequence[int]) -> None:
        """Begin a sentence; ``source_ids`` ends with ``eos``."""

    def extend(
        self, parents: list[int], tokens: list[int], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Extend the prefix of row ``parents[i]`` by ``tokens[i]``, as row i.

        Returns the ``count`` best next tokens of each row, or all, best first, and their
        log-probabilities.
        """


def default_max_length(source_length: int, limit: int) -> int:
    """Default length limit of a search: three times the source plus twenty, at most ``limit``."""
    return min(limit, 3 * source_length + 20)


def norm_of(length: int, penalty: float, normalisation: LengthNormalisation = "power") -> float:
    """The divisor of the log-probability of a hypothesis of ``length`` tokens.

    ``power``: length^penalty. ``gnmt``: ((5 + length) / 6)^penalty (Wu et al. 2016, equation 14),
    which "Attention Is All You Need" uses (section 6.1).
    """
    base = length if normalisation == "power" else (5 + length) / 6
    return float(base**penalty)


@dataclass(frozen=True, slots=True)
class Searching:
    """Search settings shared by many sentences."""

    special: SpecialIds
    beam_size: int
    length_penalty: float
    length_normalisation: LengthNormalisation = "power"
    target_prefix: tuple[int, ...] = ()
    """Forced after ``bos``. Adds no log-probability, and counts for every length."""

    def best(
        self,
        decoder: Decoder,
        source_ids: Sequence[int],
        limit: int,
        watch: Callable[[float], None] | None = None,
    ) -> list[Hypothesis]:
        """The result of ``beam_search`` with the default length limit, at most ``limit``."""
        longest = default_max_length(len(source_ids), limit)
        return beam_search(decoder, source_ids, self, longest, watch)


def beam_search(
    decoder: Decoder,
    source_ids: Sequence[int],
    searching: Searching,
    max_length: int,
    watch: Callable[[float], None] | None = None,
) -> list[Hypothesis]:
    """The finished hypotheses of one sentence, best first.

    ``watch`` is called with the margin of every step except the last possible one, see
    ``margin_of``.
    """
    special, beam_size = searching.special, searching.beam_size
    decoder.start(source_ids)
    live: list[tuple[int, ...]] = [()]
    totals = np.zeros(1, np.float32)
    parents, tokens = [0], [special.bos]
    for token in searching.target_prefix:
        decoder.extend(parents, tokens, 1)
        tokens = [token]
    finished: list[Hypothesis] = []
    never = (special.pad, special.bos)
    first = len(searching.target_prefix) + 1
    for length in range(first, max_length + 1):
        if length == first:
            ids_NK, log_probs_NK = decoder.extend(parents, tokens, sys.maxsize)
            log_probs_NK = _without(special.eos, ids_NK, log_probs_NK)
        else:
            # Excluding the tokens of ``never`` leaves 2K candidates.
            ids_NK, log_probs_NK = decoder.extend(parents, tokens, 2 * beam_size + len(never))
        log_probs_NK = np.where(np.isin(ids_NK, never), np.float32(-np.inf), log_probs_NK)
        grown = (totals[:, None] + log_probs_NK).ravel()
        ranked = np.argsort(-grown, kind="stable")[: 2 * beam_size + 1]
        ranked = ranked[np.isfinite(grown[ranked])]
        kept: list[tuple[int, ...]] = []
        kept_totals: list[np.float32] = []
        parents, tokens = [], []
        last = length == max_length
        likeliest_ended = False
        norm = norm_of(length, searching.length_penalty, searching.length_normalisation)
        for rank, place in enumerate(ranked[: 2 * beam_size].tolist()):
            row, token = place // ids_NK.shape[1], int(ids_NK.flat[place])
            prefix = live[row] if token == special.eos else (*live[row], token)
            if token == special.eos or last:
                if rank < beam_size:
                    likeliest_ended |= rank == 0
                    finished.append(Hypothesis(prefix, float(grown[place]) / norm))
            elif len(kept) < beam_size:
                kept.append(prefix)
                kept_totals.append(grown[place])
                parents.append(row)
                tokens.append(token)
        enough = likeliest_ended if searching.length_penalty == 0 else len(finished) >= beam_size
        if watch is not None and not last:
            is_eos = ids_NK.ravel()[ranked] == special.eos
            by_first = searching.length_penalty == 0
            watch(margin_of(grown[ranked], is_eos, beam_size, ends=enough, by_first=by_first))
        if enough or last:
            break
        live, totals = kept, np.array(kept_totals, np.float32)
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)


def _without(
    token: int, ids_NV: NDArray[np.int64], log_probs_NV: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The log-probabilities of the whole vocabulary if a token is impossible."""
    others_NV = np.where(ids_NV == token, np.float32(-np.inf), log_probs_NV)
    found: NDArray[np.float32] = others_NV - np.logaddexp.reduce(others_NV, axis=1, keepdims=True)
    return found


def margin_of(
    totals: NDArray[np.float32],
    is_eos: NDArray[np.bool_],
    beam_size: int,
    *,
    ends: bool,
    by_first: bool,
) -> float:
    """Least difference of two totals that decided which candidates of a step finish or go on.

    Another processor or batch rounds otherwise; beyond this margin the search takes another course.
    ``totals`` are those of the best ``2 * beam_size + 1`` candidates, best first. ``ends``: the
    search ends with this step. ``by_first``: it would end with an ending in first place.
    """
    margins = [np.inf]
    others = totals[~is_eos]
    if len(others) > beam_size and not ends:
        margins.append(others[beam_size - 1] - others[beam_size])
    if len(totals) > beam_size:
        finishing, waiting = is_eos[:beam_size], is_eos[beam_size:]
        margins.extend(totals[:beam_size][finishing] - totals[beam_size])
        margins.extend(totals[beam_size - 1] - totals[beam_size:][waiting])
    if by_first and len(totals) > 1 and is_eos[0] != is_eos[1]:
        margins.append(totals[0] - totals[1])
    return float(min(margins))


def searching_of(
    decoding: DecodingDefaults, special: SpecialIds, target_prefix: tuple[int, ...] = ()
) -> Searching:
    return Searching(
        special,
        decoding.beam_size,
        decoding.length_penalty,
        decoding.length_normalisation,
        target_prefix,
    )
