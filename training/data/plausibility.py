"""Finds swapped sides and shifted lines of a corpus by an evenly spread sample, before training.

Line numbers alone pair the sides of a corpus. A file under the wrong language, or a line that is
missing from one side, makes nearly every pair wrong, and no filter of single pairs notices it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.data.cleaning import swapped
from training.data.corpus import CorpusError, Pair

_REACH = 3
"""Lines by which one side may be shifted."""
_SAMPLE = 1_000
"""Pairs of a sample, at least; fewer than twice as many."""
_JUDGED = 500
"""Pairs whose languages are identified, about."""
_FEWEST = 50
"""Pairs of a sample that is judged, at least."""
_PARTS = 8
"""Parts of a sample that are judged apart, because a line may be missing from the middle; at most,
and of ``_PART`` pairs at least."""
_PART = 90
_CERTAIN = 5.0
"""Standard deviations by which shifted lines fit more often than those beside each other."""
_MARKS = str.maketrans("。؟।", ".?.")
_CLOSING = frozenset({"Pi", "Pf", "Ps", "Pe"})
"""Categories of quotation marks and brackets; some languages close with what others open."""
_TELLING = re.compile(r"\d\w*|[^\W\d_]\w{2,}")
"""Words that both sides may have: with figures, or names."""


class _Sampled(NamedTuple):
    number: int
    """Line number, counted from one."""
    pair: Pair
    lengths: list[int]
    """Characters of the source, and of the ``2 * _REACH + 1`` targets around its own."""
    likeness: list[int]
    """The mark at the end, and names and figures, that each of these targets shares with it."""


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
    if len(sample) < _FEWEST:
        return []
    parts = max(1, min(_PARTS, len(sample) // _PART))
    numbers = np.array_split(np.arange(len(sample)), parts)
    shifts = [(part, _shift(part)) for part in ([sample[i] for i in each] for each in numbers)]
    if not any(shift for _, shift in shifts):
        # What no part shows for certain, all of them may.
        shifts = [(sample, _shift(sample))]
    return [
        f"around lines {part[0].number:,} to {part[-1].number:,} of {name} the source fits the "
        f"target {abs(shift)} {'below' if shift > 0 else 'above'}, not the one beside it: does one "
        "side lack a line?"
        for part, shift in shifts
        if shift
    ]


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
        mark, telling = _end_and_telling(middle.source)
        others = (_end_and_telling(each.target) for each in recent)
        # A letter at the end says nothing.
        marked = bool(mark) and not mark.isalnum()
        likeness = [(marked and mark == other) + bool(telling & words) for other, words in others]
        kept.append(_Sampled(i - _REACH + 1, middle, lengths, likeness))
        if len(kept) == 2 * _SAMPLE:
            stride *= 2
            kept = [each for each in kept if (each.number + _REACH - 1) % stride == 0]
    return iter(kept)


def _end_and_telling(text: str) -> tuple[str, set[str]]:
    """The last character without quotation marks and brackets, and the names and figures."""
    closed = reversed(unicodedata.normalize("NFKC", text).translate(_MARKS))
    end = next((each for each in closed if not _closes(each)), "")
    return end, {word for word in _TELLING.findall(text) if word[0].isdigit() or word[0].isupper()}


def _closes(character: str) -> bool:
    return character.isspace() or character in "\"'" or unicodedata.category(character) in _CLOSING


def _shift(part: list[_Sampled]) -> int:
    """Lines by which the targets that fit stand below the sources; 0 if these fit as well."""
    lengths_NK = np.log1p([each.lengths for each in part])
    ratios_NK = lengths_NK[:, :1] - lengths_NK[:, 1:]
    lengths_fit_NK = -np.abs(ratios_NK - np.median(ratios_NK, axis=0))
    likeness_NK = np.array([each.likeness for each in part])
    leads_K = np.maximum(_leads(lengths_fit_NK), _leads(likeness_NK))
    best = int(leads_K.argmax())
    return best - _REACH if leads_K[best] >= _CERTAIN else 0


def _leads(fits_NK: NDArray[Any]) -> NDArray[np.float64]:
    """How much more often a column fits better than the middle one than worse (sign test)."""
    own_N1 = fits_NK[:, _REACH, None]
    better_K, worse_K = (fits_NK > own_N1).sum(axis=0), (fits_NK < own_N1).sum(axis=0)
    leads_K: NDArray[np.float64] = (better_K - worse_K) / np.sqrt(np.maximum(better_K + worse_K, 1))
    return leads_K
