"""Finds swapped sides and shifted lines of a corpus by an evenly spread sample, before training.

Line numbers alone pair the sides of a corpus. A file under the wrong language, or a line that is
missing from one side, makes nearly every pair wrong, and no filter of single pairs notices it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from training.data.cleaning import swapped
from training.data.corpus import CorpusError, Pair

_REACH = 3
"""Lines by which one side may be shifted."""
_SAMPLE = 1_000
"""Pairs of a sample, at least; fewer than twice as many."""
_JUDGED = 500
"""Pairs whose languages are identified, about."""
_FEWEST = 50
"""Pairs of a part of a sample, at least; shorter corpora are not judged."""
_PARTS = 8
"""Parts of a sample that are judged apart, because a line may be missing from the middle."""
_CERTAIN = 0.5
"""Least correlation of the lengths of shifted lines."""
_LEAD = 0.3
"""Least lead of that correlation over the one of the lines as they are."""
_VARIED = 0.1
"""Least standard deviation of the logarithms of lengths; below it nothing correlates."""


class _Sampled(NamedTuple):
    number: int
    """Line number, counted from one."""
    pair: Pair
    lengths: list[int]
    """Characters of the source, and of the ``2 * _REACH + 1`` targets around its own."""


def doubts(name: str, pairs: Iterable[Pair], source: str, target: str) -> list[str]:
    """Read a corpus once and judge a sample of it; returns what to warn of.

    Raises ``CorpusError`` if most of each side is in the language of the other. Keeps fewer than
    2,000 pairs in memory, however long the corpus is.
    """
    sample = list(_sampled(pairs))
    judged = [each.pair for each in sample[:: max(1, len(sample) // _JUDGED)]]
    if len(judged) >= _FEWEST and swapped(judged, source, target):
        raise CorpusError(
            f"the sides of {name} are swapped: most of the {source} side is in the language "
            f"{target}, and the reverse; exchange the files"
        )
    found = []
    parts = min(_PARTS, len(sample) // _FEWEST)
    for numbers in np.array_split(np.arange(len(sample)), parts) if parts else ():
        part = [sample[i] for i in numbers]
        if shift := _shift(part):
            found.append(
                f"around lines {part[0].number:,} to {part[-1].number:,} of {name} the source fits "
                f"the target {abs(shift)} {'below' if shift > 0 else 'above'} by its length, not "
                "the one beside it: does one side lack a line?"
            )
    return found


def _sampled(pairs: Iterable[Pair]) -> Iterator[_Sampled]:
    """Evenly spread pairs, without knowing how many there are."""
    kept: list[_Sampled] = []
    recent: deque[Pair] = deque(maxlen=2 * _REACH + 1)
    stride = 1
    for i, pair in enumerate(pairs):
        recent.append(pair)
        if i < 2 * _REACH or i % stride:
            continue
        middle = recent[_REACH]
        lengths = [len(middle.source), *(len(each.target) for each in recent)]
        kept.append(_Sampled(i - _REACH + 1, middle, lengths))
        if len(kept) == 2 * _SAMPLE:
            stride *= 2
            kept = [each for each in kept if (each.number + _REACH - 1) % stride == 0]
    return iter(kept)


def _shift(part: list[_Sampled]) -> int:
    """Lines by which the targets that fit stand below the sources; 0 if these fit as well."""
    lengths_NK = np.log1p([each.lengths for each in part])
    if lengths_NK.std(axis=0).min() < _VARIED:
        return 0
    correlations_K = np.corrcoef(lengths_NK, rowvar=False)[0, 1:]
    best = int(correlations_K.argmax())
    certain = correlations_K[best] >= max(_CERTAIN, correlations_K[_REACH] + _LEAD)
    return best - _REACH if certain else 0
