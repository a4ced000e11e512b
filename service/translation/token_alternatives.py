"""Alternatives at a token: CTranslate2's ``return_alternatives``.

The likeliest tokens after the target prefix, each continued by a search of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import replace

from service.engine.types import Decoded, DecodingOptions, Durations
from service.translation.errors import InvalidOption
from service.translation.tasks import results_of

Decode = Callable[[DecodingOptions], Coroutine[None, None, Decoded]]
"""Decodes a sentence; hypotheses lack the forced prefix of the direction."""


async def decode_alternatives(
    options: DecodingOptions, count: int, decode: Decode
) -> tuple[Decoded, DecodingOptions]:
    """The hypotheses that begin with ``count`` tokens, and the options of the first of them.

    They are in the order of the probabilities of their tokens.

    A score is the log-probability of the token and the score of what follows it, whose length
    alone counts. Raises ``InvalidOption`` if no token is likely enough, and the errors of
    ``Engine.decode``.
    """
    options = replace(options, completions=())
    expansion = _one_step(options, count)
    first = await decode(expansion)
    least = options.min_alternative_expansion_prob
    likely = [each for each in first.hypotheses if math.exp(each.score) >= least]
    if not likely:
        greatest = math.exp(max(each.score for each in first.hypotheses))
        raise InvalidOption(
            f"min_alternative_expansion_prob is {least}, and the likeliest next token has the "
            f"probability {greatest:.3g}; allow less likely ones"
        )
    if len(options.target_prefix) + 1 == options.max_decoding_length:
        return replace(first, hypotheses=tuple(likely)), expansion
    forced = options.target_prefix[: options.forced_prefix_length]
    following = [
        replace(
            options,
            target_prefix=(*forced, *each.token_ids),
            begins_after_prefix=True,
        )
        for each in likely
    ]
    found = await results_of([decode(each) for each in following])
    slowest = max((each.durations for each in found), key=lambda each: each.decoding)
    hypotheses = tuple(
        replace(each.hypotheses[0], score=begun.score + each.hypotheses[0].score)
        for begun, each in zip(likely, found, strict=True)
    )
    durations = Durations(
        first.durations.queued + slowest.queued, first.durations.decoding + slowest.decoding
    )
    return Decoded(hypotheses, found[0].finish_reason, durations), following[0]


def _one_step(options: DecodingOptions, count: int) -> DecodingOptions:
    """Search for the next token, which is no ``eos``."""
    length = len(options.target_prefix) + 1
    return replace(
        options,
        beam_size=count,
        num_hypotheses=count,
        patience=1.0,
        length_penalty=0.0,
        coverage_penalty=0.0,
        sampling_topk=1,
        min_decoding_length=length,
        max_decoding_length=length,
        return_scores=True,
    )
