"""Replaces unknown tokens in a translation with the aligned source characters.

A tokenizer without byte fallback reads characters it lacks as unknown tokens, and a network
trained with it writes unknown tokens for them. The word alignment says which source characters an
unknown token stands for. An unknown token without such characters is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.bundle.tokenizer import UnknownToken
from service.catalogue.loaded_model import Tokenizer, Tokenizers
from service.text.alignment import Alignment, Span
from service.text.text_edits import Edit, applied

_ENOUGH = 0.5
_NO_BLANK_BEFORE = frozenset(".,;:!?")


@dataclass(frozen=True, slots=True)
class Replacement:
    """``text`` replaces an unknown token and comes from ``source``, if known."""

    text: str
    source: Span | None = None


def unknown_in(text: str, tokenizers: Tokenizers) -> tuple[UnknownToken, ...]:
    """The tokens of a source text whose characters either side's tokenizer lacks, in order."""
    found = tokenizers.source.unknown(text)
    if tokenizers.target is tokenizers.source:
        return found
    of_target = tokenizers.target.unknown(text)
    distinct = {(each.span, each.text): each for each in (*found, *of_target)}
    return tuple(sorted(distinct.values(), key=lambda each: each.span))


def match_unknown(
    places: Sequence[Span], found: Sequence[UnknownToken], alignment: Alignment
) -> dict[Span, Replacement]:
    """The replacement for each of ``places`` that has one.

    A place matches source characters if its attention is highest at their word. Half of its highest
    attention is enough if no other target word attends more to their word. Pairs with more
    attention are matched first. Characters are used once.
    """
    weights_TS = alignment.weights_TS
    if not weights_TS.size:
        return {}
    highest_T, highest_S = weights_TS.argmax(1), weights_TS.argmax(0)
    pairs: list[tuple[float, int, int]] = []
    for place, span in enumerate(places):
        rows = _overlapping(alignment.target_words, span)[:1]
        for number, token in enumerate(found):
            columns = _overlapping(alignment.source_words, _visible(token.span))
            for row in rows:
                weight = float(weights_TS[row, columns].sum())
                half = weight >= _ENOUGH * float(weights_TS[row].max())
                belongs = highest_T[row] in columns or (half and row in highest_S[columns])
                if weight > 0 and belongs:
                    pairs.append((-weight, place, number))
    matched: dict[Span, Replacement] = {}
    used: set[int] = set()
    for _, place, number in sorted(pairs):
        if places[place] not in matched and number not in used:
            used.add(number)
            token = found[number]
            matched[places[place]] = Replacement(token.text, _visible(token.span))
    return matched


def replace_unknown(
    decoded: str, places: Sequence[Span], replacements: dict[Span, Replacement]
) -> tuple[Edit, ...]:
    """Edits that replace or remove every unknown token in ``decoded``; ``places`` are in order."""
    edits: list[Edit] = []
    for start, end in places:
        found = replacements.get((start, end))
        last = edits[-1] if edits else None
        if found is not None:
            joined = _last_character(decoded, start, last).isspace()
            text = found.text.lstrip() if joined else found.text
            edits.append(Edit(start, end, text, found.source))
        elif last is not None and not last.text and not decoded[last.end : start].strip():
            edits[-1] = Edit(last.start, end, "")
        else:
            edits.append(Edit(start, end, ""))
    return tuple(
        edit if edit.text else _with_blank(decoded, edit, edits[max(0, n - 1) : n], edits[n + 1 :])
        for n, edit in enumerate(edits)
    )


def spelled_out(text: str, tokenizer: Tokenizer) -> str:
    """``text`` as the tokenizer writes it, with the characters that it lacks."""
    token_ids, unknown = tokenizer.encode(text), tokenizer.unknown(text)
    decoded = tokenizer.decode(token_ids)
    if not unknown:
        return decoded
    spans = tokenizer.decoded_spans(token_ids)
    places = [spans[each.index] for each in unknown]
    replacements = {spans[each.index]: Replacement(each.text) for each in unknown}
    return applied(decoded, replace_unknown(decoded, places, replacements))


def _with_blank(decoded: str, removed: Edit, before: Sequence[Edit], after: Sequence[Edit]) -> Edit:
    """Extends ``removed`` by one adjacent blank if its removal would leave a superfluous one."""
    start, end = removed.start, removed.end
    following = "" if after and after[0].start == end else decoded[end : end + 1]
    preceding = _last_character(decoded, start, before[0] if before else None)
    if preceding.isspace() and following.isspace():
        return Edit(start, end + 1, "")
    at_end = end == len(decoded) or following in _NO_BLANK_BEFORE
    own_blank = start > (before[0].end if before else 0) and decoded[start - 1].isspace()
    return Edit(start - 1, end, "") if at_end and own_blank else removed


def _last_character(decoded: str, start: int, last: Edit | None) -> str:
    """The character before ``start`` once ``last`` is applied; a blank at the start of the text."""
    if last is not None and last.end == start and last.text:
        return last.text[-1]
    return decoded[start - 1] if start else " "


def _visible(span: Span) -> Span:
    return (span[0], max(span[1], span[0] + 1))


def _overlapping(words: Sequence[Span], span: Span) -> NDArray[np.int64]:
    found = [n for n, (start, end) in enumerate(words) if start < span[1] and span[0] < end]
    return np.array(found, np.int64)
