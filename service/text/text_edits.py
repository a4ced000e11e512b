"""Replaces parts of a translation's text and carries its word alignment over to the new text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from service.text.alignment import Alignment, Span, overlapping
from service.text.words import is_punctuation, words


@dataclass(frozen=True, slots=True)
class Edit:
    """``text`` replaces the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str
    source: Span | None = None
    """The source span that ``text`` translates, if known."""


@dataclass(frozen=True, slots=True)
class Edited:
    text: str
    alignment: Alignment
    written: tuple[Span, ...] = ()
    """Spans in ``text`` of the edits with a source. Each is a target word of ``alignment`` or a
    part of one."""


@dataclass(slots=True)
class _Rewritten:
    text: str = ""
    kept: list[tuple[int, int, int]] = field(default_factory=list)
    """Start and end in the new text of each unchanged part, and its shift to the old text."""
    written: list[tuple[int, int, Span]] = field(default_factory=list)
    """Start and end in the new text of each edit with a source, and the source."""


def applied(translation: str, edits: Sequence[Edit]) -> str:
    """The translation after ``edits``, which are in order and do not overlap."""
    return _rewritten(translation, edits).text if edits else translation


def edited(translation: str, alignment: Alignment, edits: Sequence[Edit]) -> Edited:
    """The translation and its alignment after ``edits``, which are in order and do not overlap."""
    if not edits:
        return Edited(translation, alignment)
    found = _rewritten(translation, edits)
    written = tuple((start, end) for start, end, _ in found.written)
    return Edited(found.text, _carried_over(alignment, found), written)


def _rewritten(translation: str, edits: Sequence[Edit]) -> _Rewritten:
    text = ""
    position = 0
    found = _Rewritten()
    for edit in edits:
        found.kept.append((len(text), len(text) + edit.start - position, position - len(text)))
        text += translation[position : edit.start]
        inserted = edit.start == edit.end and edit.source is not None
        following = translation[edit.end : edit.end + 1]
        joined = inserted and bool(text) and not text[-1].isspace()
        if joined:
            text += " "
        if edit.source is not None:
            found.written.append((len(text), len(text) + len(edit.text), edit.source))
        text += edit.text
        # A punctuation mark without a blank before it stays so.
        if inserted and following.strip() and not (joined and is_punctuation(following)):
            text += " "
        position = edit.end
    found.kept.append((len(text), len(text) + len(translation) - position, position - len(text)))
    found.text = text + translation[position:]
    return found


def _carried_over(alignment: Alignment, found: _Rewritten) -> Alignment:
    source_words, old_words = alignment.source_words, alignment.target_words
    target_words = words(found.text, [(start, end) for start, end, _ in found.written])
    weights_TS = np.zeros((len(target_words), len(source_words)), np.float32)
    for row, (start, end) in zip(weights_TS, target_words, strict=True):
        for _, _, source in found.written[overlapping(found.written, start, end)]:
            row[overlapping(source_words, *source)] += 1.0
        if not row.any():
            for first, last, shift in found.kept[overlapping(found.kept, start, end)]:
                here = max(start, first) + shift, min(end, last) + shift
                if here[0] < here[1]:
                    row += alignment.weights_TS[overlapping(old_words, *here)].sum(axis=0)
        row /= row.sum() or 1.0
    return Alignment(source_words, target_words, weights_TS)


def moved(spans: Sequence[Span], edits: Sequence[Edit]) -> tuple[Span | None, ...]:
    """Spans of a text, as spans of the text after ``edits``; ``None`` for those it removes.

    A span of characters that an edit replaces has all of the text that the edit writes. ``edits``
    are in order, do not overlap, and must not contain insertions that have a source.
    """
    if not edits:
        return tuple(spans)
    removed_starts, removed_ends = [each.start for each in edits], [each.end for each in edits]
    shifts = [0, *accumulate(len(each.text) - (each.end - each.start) for each in edits)]

    def start_of(position: int) -> int:
        number = bisect_right(removed_ends, position)
        inside = number < len(edits) and position > removed_starts[number]
        return (removed_starts[number] if inside else position) + shifts[number]

    def end_of(position: int) -> int:
        number = bisect_left(removed_starts, position)
        inside = number and position < removed_ends[number - 1]
        return (removed_ends[number - 1] if inside else position) + shifts[number]

    def after(span: Span) -> Span | None:
        start, end = start_of(span[0]), end_of(span[1])
        return (start, end) if start < end or span[0] == span[1] else None

    return tuple(map(after, spans))


def original_position(edits: Sequence[Edit], position: int) -> int | None:
    """Maps a position after ``edits`` to the one before them; ``None`` if an edit wrote it.

    ``edits`` must not contain insertions that have a source.
    """
    removed = 0
    for edit in edits:
        if position < edit.start - removed:
            break
        if position < edit.start - removed + len(edit.text):
            return None
        removed += edit.end - edit.start - len(edit.text)
    return position + removed
