"""Chooses, among finished hypotheses, the one that keeps the figures of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from models.text import numbers
from service.engine.types import Decoded, FinishReason


def best_by_figures(
    source: str, decoded: Decoded, decode: Callable[[tuple[int, ...]], str]
) -> Decoded:
    """The hypothesis with the fewest missing and added figures; ties go to the best score.

    ``decoded`` is from a search with ``all_finished`` for one hypothesis. ``decode`` converts
    token ids to text. A hypothesis without text is never preferred.
    """
    wanted = numbers(source)
    best, fewest = decoded.hypotheses[0], -1
    for hypothesis in decoded.hypotheses:
        text = decode(hypothesis.token_ids)
        found = numbers(text)
        differences = (wanted - found).total() + (found - wanted).total()
        if fewest < 0 or (differences < fewest and text.strip()):
            best, fewest = hypothesis, differences
        if not fewest:
            break
    if best is decoded.hypotheses[0]:
        return replace(decoded, hypotheses=(best,))
    return replace(decoded, hypotheses=(best,), finish_reason=FinishReason.COMPLETE)
