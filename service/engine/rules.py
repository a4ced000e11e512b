"""What options make of one sentence's search, each a number: when it ends, what it looks at.

Read beside ``service.engine.search``, which applies these to all sentences at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from service.engine.types import DecodingOptions
from service.runtime.backend import FloatArray

_ALL = 2**31 - 1


def needs_scores(options: DecodingOptions, constrained: bool) -> bool:
    """Whether a search cannot do with the order of candidates alone."""
    return options.return_scores or not options.greedy or constrained


def num_ranks(options: DecodingOptions) -> int:
    """How many candidates of a sentence are looked at."""
    if options.samples:
        return options.rows
    # Each row may lose one candidate to its ending, so twice the beam always refills it.
    return 1 if options.greedy else 2 * options.beam_size


def drawn_from(options: DecodingOptions) -> int:
    """How many candidates of each row a draw needs to see; 0 if nothing is drawn."""
    return (options.sampling_topk or _ALL) if options.samples else 0


def ends_early(options: DecodingOptions) -> bool:
    """Whether nothing can overtake an ending of rank 0."""
    unpunished = options.length_penalty == 0 and options.coverage_penalty == 0
    return unpunished and not options.samples and not options.greedy


def enough_ends(options: DecodingOptions) -> int:
    """Hypotheses that end a search."""
    if options.samples or ends_early(options):
        return options.num_hypotheses
    return 1 if options.greedy else options.max_finished


def least_share(options: DecodingOptions) -> float:
    """Of its sum, the least that can become a row's score; NaN if nothing follows from it.

    Sums are never positive, so with a penalty the longest hypothesis can score best.
    """
    if options.samples or options.length_penalty < 0:
        return math.nan
    return options.normalised(1.0, options.max_decoding_length)


def largest(totals_BN: FloatArray, count: int) -> NDArray[np.int64]:
    """The places of the ``count`` largest, largest first; of equals, the first."""
    # Floats sort like integers but for their sign; with the place below, one sort does it all.
    bits_BN = (totals_BN + np.float32(0)).view(np.int32)
    ascending_BN = bits_BN ^ ((bits_BN >> 31) & np.int32(0x7FFFFFFF))
    keys_BN = (~ascending_BN).astype(np.int64) << 32
    keys_BN |= np.arange(totals_BN.shape[1])
    keys_BN.sort(axis=1)
    return keys_BN[:, :count] & 0xFFFFFFFF
