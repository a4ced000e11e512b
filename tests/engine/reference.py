"""Reference beam search by CTranslate2's rules, for one sentence, without cache or batch.

Every prefix goes through the model in full, and every token of the vocabulary is a candidate.
``service.engine`` must find the same hypotheses. Both share only the options, the result types
and the sampling of a token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.engine.sampling import draw, uniform
from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis

Floats = NDArray[np.float32]
Model = Callable[[tuple[int, ...]], tuple[Floats, Floats]]
"""Maps the target tokens so far, without ``bos``, to logits ``[V]`` of the next token and the last
layer's cross-attention ``[S]`` of the position that predicts it, averaged over heads."""

ZERO = np.float32(0)


@dataclass(frozen=True, slots=True)
class Row:
    """A live prefix, or a candidate for one."""

    prefix: tuple[int, ...] = ()
    total: np.float32 = ZERO
    coverage: Floats | np.float32 = ZERO
    """Attention that each source position has received so far."""
    position: int = 0
    """Position of the parent row."""
    log_prob: np.float32 = ZERO
    """Log-probability of the last token."""

    @property
    def rank(self) -> tuple[float, int, float, int]:
        return -float(self.total), self.position, -float(self.log_prob), self.prefix[-1]


@dataclass(frozen=True, slots=True)
class End:
    row: Row
    reason: FinishReason


Choose = Callable[[list[Row]], list[Row]]
"""Selects and ranks the candidates of one step, best first."""


def reference_decode(
    model: Model,
    options: DecodingOptions,
    *,
    eos: int,
    unk: int,
    allowed: Set[int] | None = None,
    never: Set[int] = frozenset(),
) -> Decoded:
    """Search one sentence. ``allowed`` are the tokens of its shortlist; ``None`` allows all.

    Tokens of ``never`` keep their probability, but the search does not use them.
    """

    def log_probs_after(prefix: tuple[int, ...]) -> tuple[Floats, Floats]:
        logits, attention = model(prefix)
        logits = penalised(logits, prefix, options.repetition_penalty)
        logits[list(disabled(prefix, options, eos, unk))] = -np.inf
        if allowed is not None:
            logits[[token for token in range(len(logits)) if token not in allowed]] = -np.inf
        log_probs = log_softmax(logits)
        log_probs[list(never)] = -np.inf
        return log_probs, attention

    # With one candidate per step, the search ends with its first hypothesis.
    if options.samples:
        ends = [
            end
            for row in range(options.num_hypotheses)
            for end in search(log_probs_after, options, eos, sampler(options, row))
        ]
        ends.sort(key=lambda end: len(end.row.prefix))
    elif options.beam_size == 1 and options.prefix_bias_beta == 0:
        ends = search(log_probs_after, options, eos, likeliest(1))
    else:
        ends = search(log_probs_after, options, eos, likeliest(2 * options.beam_size))
    ends.sort(key=lambda end: -score(end.row, options))
    best = ends[: options.num_hypotheses]
    return Decoded(
        tuple(
            Hypothesis(
                end.row.prefix[:-1] if end.reason is FinishReason.COMPLETE else end.row.prefix,
                score(end.row, options),
            )
            for end in best
        ),
        best[0].reason,
    )


def search(model: Model, options: DecodingOptions, eos: int, choose: Choose) -> list[End]:
    """Finished hypotheses, in order. ``model`` gives log-probabilities, ``-inf`` if disabled."""
    width = options.beam_size
    biased = options.prefix_bias_beta > 0
    forced = options.target_prefix[: options.forced_prefix_length if biased else None]
    wished = options.target_prefix if biased else ()

    # None is an empty position. Positions are kept because they break ties of equal totals.
    rows: list[Row | None] = [Row(), *[None] * (width - 1)]
    # As in CTranslate2, the flag belongs to the position, not to the row.
    diverged = [False] * width
    first_rank_has_ended = False
    ends: list[End] = []

    for step in range(options.max_decoding_length):
        if step < len(forced):
            row = rows[0]
            assert row is not None
            _, attention = model(row.prefix)
            rows[0] = Row((*row.prefix, forced[step]), coverage=row.coverage + attention)
            continue

        candidates = []
        for position, row in enumerate(rows):
            if row is None:
                continue
            log_probs, attention = model(row.prefix)
            if step < len(wished) and not diverged[position]:
                log_probs = drawn_towards(wished[step], log_probs, options.prefix_bias_beta)
            for token in np.flatnonzero(log_probs > -np.inf).tolist():
                candidates.append(
                    Row(
                        (*row.prefix, token),
                        row.total + log_probs[token],
                        row.coverage + attention,
                        position,
                        log_probs[token],
                    )
                )
        if not candidates:
            # No token is allowed. Without finished hypotheses, the live rows are the result.
            return ends or [End(row, FinishReason.LENGTH) for row in rows if row is not None]

        ranked: list[Row | None] = [*choose(candidates)]
        if forced and step == len(forced) and not options.begins_after_prefix:
            # An ending right after the prefix counts only if it is the best candidate;
            # otherwise its position stays empty for one step.
            ranked[1:] = [row if row and row.prefix[-1] != eos else None for row in ranked[1:]]

        last = step + 1 == options.max_decoding_length
        spare = iter([row for row in ranked[width:] if row and row.prefix[-1] != eos])
        rows = [None] * width
        for rank, candidate in enumerate(ranked[:width]):
            last_token = candidate.prefix[-1] if candidate else None
            diverged[rank] |= step >= len(wished) or last_token != wished[step]
            if candidate is None:
                continue
            if last_token == eos or last:
                reason = FinishReason.COMPLETE if last_token == eos else FinishReason.LENGTH
                ends.append(End(candidate, reason))
                first_rank_has_ended |= rank == 0
                rows[rank] = next(spare, None)
            else:
                rows[rank] = candidate

        if options.length_penalty == 0 and options.coverage_penalty == 0:
            enough = first_rank_has_ended and len(ends) >= options.num_hypotheses
        else:
            enough = len(ends) >= options.max_finished
        if enough:
            break
    return ends


def likeliest(count: int) -> Choose:
    """The best by total, then by position, then by log-probability, then by id."""
    return lambda candidates: sorted(candidates, key=lambda row: row.rank)[:count]


def sampler(options: DecodingOptions, row: int) -> Choose:
    def choose(candidates: list[Row]) -> list[Row]:
        token_ids = np.array([candidate.prefix[-1] for candidate in candidates], np.int32)
        log_probs = np.array([candidate.log_prob for candidate in candidates], np.float32)
        position = len(candidates[0].prefix) - 1
        return [
            candidates[draw(token_ids, log_probs, options, uniform(options.seed, row, position))]
        ]

    return choose


def penalised(logits: Floats, prefix: tuple[int, ...], penalty: float) -> Floats:
    """A copy with the repetition penalty applied once to each distinct token of the prefix."""
    logits = logits.copy()
    for token in set(prefix):
        if logits[token] < 0:
            logits[token] *= np.float32(penalty)
        else:
            logits[token] /= np.float32(penalty)
    return logits


def disabled(
    prefix: tuple[int, ...], options: DecodingOptions, eos: int, unk: int
) -> Iterator[int]:
    """Tokens that must not follow the prefix."""
    if len(prefix) < options.min_decoding_length:
        yield eos
    if options.disable_unk:
        yield unk
    for sequence in options.suppress_sequences:
        *beginning, token = sequence
        if prefix[max(0, len(prefix) - len(beginning)) :] == tuple(beginning):
            yield token
    size = options.no_repeat_ngram_size
    if size:
        for start in range(len(prefix) - size + 1):
            *beginning, token = prefix[start : start + size]
            if prefix[len(prefix) - size + 1 :] == tuple(beginning):
                yield token


def log_softmax(logits: Floats) -> Floats:
    """Log-softmax in float32; logits of only ``-inf`` are returned unchanged."""
    if logits.max() == -np.inf:
        return logits
    shifted = logits - logits.max()
    log_probs: Floats = shifted - np.log(np.exp(shifted).sum())
    return log_probs


def drawn_towards(token: int, log_probs: Floats, beta: float) -> Floats:
    """``(1 - beta) * p``, plus ``beta`` for ``token``, even if it is disabled."""
    biased = log_probs + np.float32(math.log1p(-beta))
    biased[token] = math.log(math.exp(log_probs[token]) * (1 - beta) + beta)
    return biased


def score(row: Row, options: DecodingOptions) -> float:
    """The normalised total plus the coverage penalty; 0 for an empty row."""
    length = len(row.prefix)
    if options.begins_after_prefix:
        length = max(0, length - len(options.target_prefix))
    if length == 0:
        return 0.0
    base = length if options.length_normalisation == "power" else (5 + length) / 6
    received = np.asarray(row.coverage, np.float64)
    received = received[received > 0]
    penalty = options.coverage_penalty * float(np.log(np.minimum(received, 1)).sum())
    return float(row.total) / math.pow(base, options.length_penalty) + penalty
