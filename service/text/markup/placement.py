"""Places the elements of a source sentence in its translation by word alignment.

Elements are placed from the whole sentence inwards. Among the children of an element, each target
word belongs to the child that most of its attention to the element's words goes to. Each child gets
one range of target words inside its parent's range and outside its siblings' ranges: the range with
the most of its own words and the fewest of its siblings'. A child that gets no word this way gets
the word with the most attention to it. Elements that still have none, and points without words, are
placed between two words, next to the translations of their neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from service.text.markup.attention import Attention
from service.text.markup.marks import Element, Mark, Zero, flat
from service.text.words import is_punctuation

_OWN, _UNALIGNED = 0, -1
_INDIFFERENT = -0.25
"""Score in a range of a word that is unaligned or punctuation."""
_TIE = 1e-3
_CERTAIN = 0.2
"""Minimum weight to follow a word that is aligned more strongly elsewhere."""


class Placement:
    """Places the elements of one sentence."""

    def __init__(self, root: Element, aligned: Attention, source: str, target: str) -> None:
        self._root = root
        self._source = source
        self._weights_TS = aligned.weights_TS
        self._source_words = aligned.source_words
        self._starts = [start for start, _ in aligned.source_words]
        self._source_marks = [source[start:end] for start, end in aligned.source_words]
        self._target_marks = [target[start:end] for start, end in aligned.target_words]
        self._peaks = aligned.weights_TS.max(axis=0, initial=0.0).tolist()
        self._attending: dict[tuple[int, tuple[int, int]], tuple[int, float]] = {}
        """Target word that attends most to a source word, and its weight, by source word and place.
        Many marks may stand next to one word."""

    def place(self) -> None:
        """Set ``words``, ``place`` and ``order`` of all elements."""
        if self._source_words:
            self._give_words()
        self._root.place = (0, len(self._target_marks))
        waiting = [self._root]
        while waiting:
            element = waiting.pop()
            self._place_children(element)
            waiting.extend(child for _, child in element.order if isinstance(child, Element))

    def _give_words(self) -> None:
        """Set ``words``: a word belongs to the innermost element that it overlaps.

        Of several equally deep ones, to the element with the largest part of it.
        """
        order: list[Element] = []
        depths: dict[Element, int] = {self._root: 0}
        waiting = [self._root]
        while waiting:
            element = waiting.pop()
            order.append(element)
            for child in element.children:
                if isinstance(child, Element):
                    depths[child] = depths[element] + 1
                    waiting.append(child)
        owners = self._owners()
        for number, (start, end) in enumerate(self._source_words):
            parts = Counter(owners[start:end] or [self._root])
            owner = max(parts, key=lambda element: (depths[element], parts[element]))
            first, last = owner.words if owner.has_words else (number, number)
            owner.words = (min(first, number), max(last, number + 1))
        for element in reversed(order):
            ranges = [element.words] if element.has_words else []
            for child in element.children:
                if isinstance(child, Element) and child.has_words:
                    ranges.append(child.words)
            if ranges:
                element.words = min(first for first, _ in ranges), max(last for _, last in ranges)

    def _owners(self) -> list[Element]:
        """The innermost element around each character of the source."""
        owners: list[Element] = []
        path: list[tuple[Element, int]] = [(self._root, 0)]
        while path:
            element, number = path.pop()
            entered = False
            while number < len(element.children):
                child = element.children[number]
                number += 1
                if isinstance(child, Element):
                    owners.extend([element] * (child.start - len(owners)))
                    path.append((element, number))
                    path.append((child, 0))
                    entered = True
                    break
            if not entered:
                owners.extend([element] * (element.end - len(owners)))
        return owners

    def _place_children(self, element: Element) -> None:
        """Divide an element's place among its children."""
        low, high = element.place
        if low < high:
            self._divide(element)
        elements = [child for child in element.children if isinstance(child, Element)]
        settled = {child.place: child for child in elements if child.place[0] < child.place[1]}
        taken = sorted(settled)
        ranked: list[tuple[int, int, Element | Zero]] = []
        first, last = low, high
        if elements and elements[0].pinned == "left":
            first = max(low, elements[0].place[1])
        if elements and elements[-1].pinned == "right" and elements[-1].place in settled:
            last = elements[-1].place[0]
        for child in element.children:
            pinned = child.pinned if isinstance(child, Element) else None
            if isinstance(child, Element) and child.place[0] < child.place[1]:
                ranked.append((child.place[0], 1, child))
            elif pinned is not None:
                rank, place = (-1, low) if pinned == "left" else (2, high)
                ranked.append((place, rank, flat(child)))
            else:
                zero = flat(child)
                wanted = self._projected(child, zero, element)
                place = min(max(wanted, first), last)
                around = bisect_left(taken, (place, 0)) - 1
                if around >= 0 and place < taken[around][1]:
                    sibling = settled[taken[around]]
                    place = sibling.place[0 if _start(child) <= sibling.start else 1]
                if place != wanted:
                    zero.holds_left = zero.holds_right = False
                ranked.append((place, 0, zero))
        ranked.sort(key=lambda entry: entry[:2])
        element.order = [(place, child) for place, _, child in ranked]

    def _divide(self, parent: Element) -> None:
        low, high = parent.place
        children = [
            child for child in parent.children if isinstance(child, Element) and child.has_words
        ]
        if not children:
            return
        if len(children) == 1 and children[0].words == parent.words:
            children[0].place = parent.place
            return
        labels, shares = self._labels(parent, children)
        ranges = Ranges(labels, list(map(is_punctuation, self._target_marks[low:high])))
        wordless: list[tuple[int, Element]] = []
        for number, child in sorted(
            enumerate(children, start=1),
            key=lambda numbered: (numbered[1].pinned is None, -ranges.count(numbered[0])),
        ):
            start, end = 0, 0
            if ranges.count(number):
                start, end = ranges.best(number, shares[number], child.pinned)
            if start < end:
                self._settle(child, start, end, low, ranges)
            else:
                wordless.append((number, child))
        if wordless:
            peaks = self._weights_TS[slice(*parent.place), slice(*parent.words)].argmax(axis=1)
            peaks += parent.words[0]
        wordless.sort(key=lambda numbered: -shares[numbered[0]].max())
        for number, child in wordless:
            start, end = self._likeliest(child, shares[number], peaks, ranges)
            if start < end:
                self._settle(child, start, end, low, ranges)

    def _settle(self, child: Element, start: int, end: int, low: int, ranges: Ranges) -> None:
        """Set the place of a child to a range of its parent's words, without edge punctuation."""
        start, end = self._neat(child, low + start, low + end, low, ranges.free)
        child.place = (start, end)
        ranges.take(start - low, end - low)

    def _likeliest(
        self,
        child: Element,
        shares_T: NDArray[np.float32],
        peaks_T: NDArray[np.intp],
        ranges: Ranges,
    ) -> tuple[int, int]:
        """The range around the word with the most attention to a child that has no words.

        The words beside it belong to the range if they attend most to a word of the child,
        ``peaks_T``. An empty range if the attention is low, or if the word belongs to a sibling. A
        link always gets a free word with attention to it. An element that continues beyond the
        sentence gets none, because it must reach an end of the sentence.
        """
        first, last = child.words
        candidates_T, least = shares_T, _CERTAIN
        if not all(map(is_punctuation, self._source_marks[first:last])):
            candidates_T = shares_T * ranges.has_letters_T
        if child.is_link:
            least = _TIE
            candidates_T = np.where(ranges.free, candidates_T, 0.0)
            if candidates_T.max() <= least:
                candidates_T = np.where(ranges.free, shares_T, 0.0)
        elif child.pinned is not None:
            return 0, 0
        best = int(candidates_T.argmax())
        if not ranges.free[best] or candidates_T[best] <= least:
            return 0, 0
        start, end = best, best + 1
        while start > 0 and ranges.free[start - 1] and first <= peaks_T[start - 1] < last:
            start -= 1
        while end < len(peaks_T) and ranges.free[end] and first <= peaks_T[end] < last:
            end += 1
        return start, end

    def _labels(
        self, parent: Element, children: list[Element]
    ) -> tuple[list[int], NDArray[np.float32]]:
        """Child number of each target word, and the attention mass of each child, [C+1, T].

        Number 0 is the parent itself, children count from 1, and -1 is unaligned.
        """
        (low, high), (first, last) = parent.place, parent.words
        sums = np.cumsum(self._weights_TS[low:high, first:last], axis=1, dtype=np.float32)
        sums = np.pad(sums, ((0, 0), (1, 0)))
        masses = np.stack(
            [
                np.zeros(high - low, dtype=np.float32),
                *(sums[:, c.words[1] - first] - sums[:, c.words[0] - first] for c in children),
            ]
        )
        masses[_OWN] = np.maximum(sums[:, -1] - masses.sum(axis=0), 0.0)
        labels = np.where(masses.max(axis=0) > _TIE, masses.argmax(axis=0), _UNALIGNED)
        return labels.tolist(), masses

    def _neat(
        self, child: Element, start: int, end: int, low: int, free: list[bool]
    ) -> tuple[int, int]:
        """Trim punctuation at the edges that the source element lacks, and extend to one it has."""
        first, last = child.words
        if child.pinned != "left" and not is_punctuation(self._source_marks[first]):
            while start < end - 1 and is_punctuation(self._target_marks[start]):
                start += 1
        if child.pinned != "right":
            mark = self._source_marks[last - 1]
            if not is_punctuation(mark):
                while start < end - 1 and is_punctuation(self._target_marks[end - 1]):
                    end -= 1
            elif (
                end - low < len(free)
                and free[end - low]
                and self._target_marks[end] == mark != self._target_marks[end - 1]
            ):
                end += 1
        return start, end

    def _projected(self, child: Element | Mark, zero: Zero, parent: Element) -> int:
        """The target word before which content without words is placed."""
        low, high = parent.place
        if low == high:
            return low
        at = _start(child)
        after = child.at if isinstance(child, Mark) else child.end
        first, last = parent.words
        if isinstance(child, Element) and child.has_words:
            own = self._became(child.words[0], parent, _CERTAIN)
            if own is not None:
                return own
        before = max(bisect_right(self._starts, at - 1, first, last) - 1, first - 1)
        behind = bisect_left(self._starts, after, first, last)
        left = self._became(before, parent) if before >= first else None
        right = self._became(behind, parent) if behind < last else None
        if left is not None and zero.left == "text":
            gap = self._source[self._source_words[before][1] : at]
            zero.holds_left = not gap.strip() and self._may_touch(before, left)
        if right is not None and zero.right == "text":
            gap = self._source[after : self._starts[behind]]
            zero.holds_right = not gap.strip() and self._may_touch(behind, right)
        if left is None or right is None:
            if left is not None:
                return left + 1
            if right is not None:
                return right
            return low + round((high - low) * at / max(len(self._source), 1))
        if left + 1 == right:
            return right
        chosen = self._stronger(before, behind, zero)
        if chosen == before:
            zero.holds_right = False
            return left + 1
        zero.holds_left = False
        return right

    def _may_touch(self, source: int, target: int) -> bool:
        """Whether a mark may touch a target word: an address must not be joined to letters."""
        return is_punctuation(self._target_marks[target]) or not is_punctuation(
            self._source_marks[source]
        )

    def _stronger(self, before: int, behind: int, zero: Zero) -> int:
        """The neighbour to follow: preferably no comma, then one it touches, then by weight."""

        def weight(word: int, touches: bool) -> tuple[bool, bool, float]:
            return self._source_marks[word][0] not in ".,;:!?…。、", touches, self._peaks[word]

        left, right = weight(before, zero.holds_left), weight(behind, zero.holds_right)
        return before if left >= right else behind

    def _became(self, word: int, parent: Element, least: float = _TIE) -> int | None:
        """The target word in the parent's place that attends most to source word ``word``."""
        known = self._attending.get((word, parent.place))
        if known is None:
            low, high = parent.place
            column = self._weights_TS[low:high, word]
            best = int(column.argmax())
            known = self._attending[word, parent.place] = low + best, float(column[best])
        target, weight = known
        return target if weight > least else None


def _start(content: Element | Mark) -> int:
    return content.at if isinstance(content, Mark) else content.start


class Ranges:
    """Finds the best free range of target words for each child of an element.

    A word of the range scores 1 if it belongs to the child, a little less than 0 if it is unaligned
    or punctuation, and -1 otherwise; the child's attention to it decides ties. The best range
    begins and ends with words of the child, so only these are visited, and the time for all
    children together grows with the number of words.
    """

    def __init__(self, labels: Sequence[int], punctuation: Sequence[bool]) -> None:
        self.free = [True] * len(labels)
        self.has_letters_T = ~np.array(punctuation, dtype=bool)
        self._own: dict[int, list[int]] = {}
        for t, label in enumerate(labels):
            self._own.setdefault(label, []).append(t)
        costs = [
            _INDIFFERENT if label == _UNALIGNED or is_mark else -1.0
            for label, is_mark in zip(labels, punctuation, strict=True)
        ]
        self._costs = list(accumulate(costs, initial=0.0))
        self._taken: list[tuple[int, int]] = []

    def count(self, number: int) -> int:
        """The number of words of a child."""
        return len(self._own.get(number, ()))

    def take(self, start: int, end: int) -> None:
        insort(self._taken, (start, end))
        self.free[start:end] = [False] * (end - start)

    def best(
        self, number: int, shares_T: NDArray[np.float32], pinned: str | None
    ) -> tuple[int, int]:
        """The free range with the highest positive score; a ``pinned`` one touches that end.

        ``shares_T`` is the attention of each word to the child. An empty range if there is none.
        """
        words = self._own[number]
        ties = [0.0, *(_TIE * np.cumsum(shares_T, dtype=np.float64)).tolist()]
        if pinned == "left":
            return 0, self._furthest(words, ties)
        if pinned == "right":
            return self._furthest_back(words, ties), len(self.free)
        best, best_range = 0.0, (0, 0)
        total, start = 0.0, 0
        after = 0
        for t in words:
            total += self._between(after, t, ties)
            if total <= 0.0 or not self._is_free(after, t):
                total, start = 0.0, t
            after = t + 1
            if not self.free[t]:
                total, start = 0.0, after
                continue
            total += 1.0 + ties[t + 1] - ties[t]
            if total > best:
                best, best_range = total, (start, after)
        return best_range

    def _furthest(self, words: Sequence[int], ties: Sequence[float]) -> int:
        """The end of the best range from the first word on."""
        best, best_end, total, after = 0.0, 0, 0.0, 0
        for t in words:
            if not self._is_free(after, t + 1):
                break
            total += self._between(after, t, ties) + 1.0 + ties[t + 1] - ties[t]
            after = t + 1
            if total > best:
                best, best_end = total, after
        return best_end

    def _furthest_back(self, words: Sequence[int], ties: Sequence[float]) -> int:
        """The start of the best range that reaches the last word."""
        end = len(self.free)
        best, best_start, total, before = 0.0, end, 0.0, end
        for t in reversed(words):
            if not self._is_free(t, before):
                break
            total += self._between(t + 1, before, ties) + 1.0 + ties[t + 1] - ties[t]
            before = t
            if total > best:
                best, best_start = total, t
        return best_start

    def _between(self, start: int, end: int, ties: Sequence[float]) -> float:
        """The score of words that do not belong to the child."""
        return self._costs[end] - self._costs[start] + ties[end] - ties[start]

    def _is_free(self, start: int, end: int) -> bool:
        place = bisect_left(self._taken, (end, 0)) - 1
        return place < 0 or self._taken[place][1] <= start
