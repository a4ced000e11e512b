"""Toy models and the plainest beam search that can be written, for comparison."""

from __future__ import annotations

import zlib

import numpy as np

from service.engine.types import DecodingOptions, FinishReason
from service.runtime.backend import FloatArray
from service.runtime.scripted import Script

BOS, EOS, VOCABULARY = 1, 2, 12


def random_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """An arbitrary but fixed distribution for every (source, prefix)."""
    seed = zlib.crc32(repr((source, prefix)).encode())
    logits = np.random.default_rng(seed).normal(size=VOCABULARY).astype(np.float32) * 2
    logits[[0, BOS]] = -1e9
    log_probs: FloatArray = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    return log_probs


def undecided_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Like ``random_model``, but so coarse that equal sums are everywhere."""
    return np.round(random_model(source, prefix)).astype(np.float32)


def copying_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Almost certainly repeats the source, then ends."""
    log_probs = np.full(VOCABULARY, -20.0, np.float32)
    log_probs[EOS] = -90.0  # or endings as unlikely as anything else would fill the beam
    position = len(prefix) - 1
    log_probs[source[position] if position < len(source) else EOS] = -0.01
    return log_probs


End = tuple[float, tuple[int, ...], FinishReason]


def reference_beam_search(
    model: Script, source: tuple[int, ...], options: DecodingOptions
) -> list[End]:
    """CTranslate2's definition. Every prefix in full, one sentence, no cache, no batch."""
    beam_size = options.beam_size
    live: list[tuple[tuple[int, ...], np.float32]] = [((BOS,), np.float32(0))]
    ends: list[End] = []
    first_rank_ended = False
    for length in range(1, options.max_decoding_length + 1):
        grown = []
        for row, (prefix, total) in enumerate(live):
            for token, log_prob in enumerate(model(source, prefix)):
                grown.append((-(total + log_prob), row, -log_prob, token, prefix))
        grown.sort()

        live = []
        for rank, (negative_total, _, _, token, prefix) in enumerate(grown[: 2 * beam_size]):
            total = -negative_total
            score = float(total) / length**options.length_penalty
            if rank < beam_size and token == EOS:
                ends.append((score, prefix[1:], FinishReason.COMPLETE))
                first_rank_ended |= rank == 0
            elif rank < beam_size and length == options.max_decoding_length:
                ends.append((score, (*prefix[1:], token), FinishReason.LENGTH))
            elif token != EOS and len(live) < beam_size:
                live.append(((*prefix, token), total))

        if options.length_penalty == 0:
            enough = first_rank_ended and len(ends) >= options.num_hypotheses
        else:
            enough = len(ends) >= beam_size
        if enough:
            break
    return sorted(ends, key=lambda end: -end[0])[: options.num_hypotheses]
