"""Random sampling of one candidate of a row, with top-k, top-p and temperature.

A draw depends only on the request's seed, the row and the position, so the same request gives the
same translation in any batch. Candidates that may not be written have been removed before.
"""

from __future__ import annotations

import numpy as np

from service.engine.types import DecodingOptions
from service.runtime.backend import FloatArray, IntArray


def uniform(seed: int, row: int, position: int) -> float:
    """The random number in [0, 1) for a row's token at a position.

    ``position`` counts the tokens written before, a forced prefix included. The generator is
    counter-based (Salmon et al. 2011): no state passes from one draw to the next.
    """
    counter = np.array([0, 0, row, position], np.uint64)
    return float(np.random.Generator(np.random.Philox(key=seed, counter=counter)).random())


def draw(token_ids_N: IntArray, log_probs_N: FloatArray, options: DecodingOptions, u: float) -> int:
    """The index of the candidate that ``u``, in [0, 1), selects.

    Keeps the ``sampled_from`` likeliest candidates, of equal ones the lower id. Divides by the
    temperature. Keeps the fewest candidates whose renormalised probabilities sum to
    ``sampling_topp`` (Holtzman et al. 2020). Inverts their cumulative distribution. A candidate
    with log-probability ``-inf`` is never drawn. Raises ``ValueError`` if all have ``-inf``.
    """
    order = np.lexsort((token_ids_N, -log_probs_N))
    order = order[log_probs_N[order] > -np.inf]
    order = order[: options.sampled_from]
    if not len(order):
        raise ValueError("nothing to draw from: every candidate has log-probability -inf")

    log_probs = log_probs_N[order].astype(np.float64)
    weights = np.exp((log_probs - log_probs[0]) / options.sampling_temperature)
    cumulative = np.cumsum(weights)
    if options.sampling_topp < 1:
        needed = options.sampling_topp * cumulative[-1]
        cumulative = cumulative[: np.searchsorted(cumulative, needed) + 1]
    drawn = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    # u * total may round up to the total itself.
    return int(order[min(int(drawn), len(cumulative) - 1)])
