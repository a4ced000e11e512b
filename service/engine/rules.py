"""Stopping and ranking parameters of one sentence's beam search, derived from its options.

``service.engine.search`` applies them to all sentences of a batch at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from service.engine.types import DecodingOptions
from service.runtime.backend import FloatArray

_ALL = 2**31 - 1


def needs_scores(options: DecodingOptions, constrained: bool) -> bool:
    """Whether the search needs log-probabilities, not only the order of candidates."""
    return options.return_scores or not options.greedy or constrained


def num_ranks(options: DecodingOptions) -> int:
    """Number of candidates of a sentence that are ranked in each step."""
    if options.samples:
        return options.rows
    # Each row has at most one ending, so 2 * beam_size candidates always refill the beam.
    return 1 if options.greedy else 2 * options.beam_size


def drawn_from(options: DecodingOptions) -> int:
    """Number of candidates of each row that sampling needs; 0 without sampling."""
    return (options.sampling_topk or _ALL) if options.samples else 0


def ends_early(options: DecodingOptions) -> bool:
    """Whether an ending of rank 0 may stop the search: no later hypothesis scores better."""
    unpunished = options.length_penalty == 0 and options.coverage_penalty == 0
    return unpunished and not options.samples and not options.greedy


def enough_ends(options: DecodingOptions) -> int:
    """Number of finished hypotheses that stop a search."""
    if options.samples or ends_early(options):
        return options.num_hypotheses
    return 1 if options.greedy else options.max_finished


def least_share(options: DecodingOptions) -> float:
    """Smallest factor from a row's sum of log-probabilities to its score; NaN if unbounded.

    Sums are never positive, so with a length penalty the longest hypothesis can score best.
    """
    if options.samples or options.length_penalty < 0:
        return math.nan
    return options.normalised(1.0, options.max_decoding_length)


def largest(totals_BN: FloatArray, count: int) -> NDArray[np.int64]:
    """Indices of the ``count`` largest in each row, largest first; ties by index."""
    # After a sign fix, floats sort like integers; the index in the low bits breaks ties.
    bits_BN = (totals_BN + np.float32(0)).view(np.int32)
    ascending_BN = bits_BN ^ ((bits_BN >> 31) & np.int32(0x7FFFFFFF))
    keys_BN = (~ascending_BN).astype(np.int64) << 32
    keys_BN |= np.arange(totals_BN.shape[1])
    keys_BN.sort(axis=1)
    return keys_BN[:, :count] & 0xFFFFFFFF
