from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from service.text.text_edits import Edit, applied, edited, moved, original_position
from service.text.words import words
from tests.translation.markup.making import aligned

texts = st.text("ab .\u2047(Ü", min_size=1, max_size=20)


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(texts)
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = zip(borders[::2], borders[1::2], strict=False)
    return text, [Edit(start, end, draw(st.text("cd", max_size=3))) for start, end in spans]


@given(texts_with_edits())
def test_edits_change_only_their_own_spans(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    expected = text
    for edit in reversed(edits):
        expected = expected[: edit.start] + edit.text + expected[edit.end :]
    assert applied(text, edits) == expected


@given(texts_with_edits())
def test_unchanged_character_has_its_original_position(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    kept = [n for n in range(len(text)) if not any(e.start <= n < e.end for e in edits)]
    result = applied(text, edits)
    positions = [original_position(edits, n) for n in range(len(result))]
    assert [position for position in positions if position is not None] == kept


@given(texts_with_edits())
def test_span_after_edits_has_its_kept_characters_and_what_replaced_others(
    case: tuple[str, list[Edit]],
) -> None:
    text, edits = case
    result = applied(text, edits)
    kept = [number for number in range(len(result)) if original_position(edits, number) is not None]
    characters = [(number, number + 1) for number in range(len(text))]
    unchanged = [span for span in characters if not any(e.start <= span[0] < e.end for e in edits)]
    assert moved(unchanged, edits) == tuple((number, number + 1) for number in kept)
    for edit in edits:
        inside = {moved([span], edits)[0] for span in characters[edit.start : edit.end]}
        written = {span and result[slice(*span)] for span in inside}
        assert written <= {edit.text or None}


@given(texts, texts_with_edits())
def test_edited_text_has_alignment_of_its_own_words(
    source: str, case: tuple[str, list[Edit]]
) -> None:
    text, edits = case
    assume(edits)
    links = [(0, n) for n in range(len(words(text)))] if words(source) else []
    result = edited(text, aligned(source, text, links), edits)
    assert result.text == applied(text, edits)
    assert result.alignment.target_words == words(result.text)
    sums = result.alignment.weights_TS.sum(axis=1)
    assert np.all(np.isclose(sums, 1) | (sums == 0))


def test_replaced_word_is_aligned_with_the_source_of_its_edit() -> None:
    alignment = aligned("ein (alter Hund", "an \u2047 old dog", [(0, 0), (2, 2), (3, 3)])
    result = edited("an \u2047 old dog", alignment, [Edit(3, 5, "(", (4, 5))])
    assert result.text == "an (old dog"
    assert result.written == ((3, 4),)
    assert [(link.source, link.target) for link in result.alignment.links()] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
    ]
