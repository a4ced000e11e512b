from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import Tokenizer, UnknownToken, train_tokenizer
from service.text.text_edits import applied
from service.text.words import words
from service.translation.unknown_tokens import (
    Replacement,
    match_unknown,
    replace_unknown,
    spelled_out,
    unknown_in,
)
from tests.translation.markup.making import aligned

UNKNOWN = re.compile(" \u2047 ")


def places_in(decoded: str) -> list[tuple[int, int]]:
    return [found.span() for found in UNKNOWN.finditer(decoded)]


def lacking(source: str, characters: str) -> list[UnknownToken]:
    return [
        UnknownToken(n, character, (n, n + 1))
        for n, character in enumerate(source)
        if character in characters
    ]


def filled(source: str, decoded: str, links: list[tuple[int, int]], characters: str) -> str:
    places = places_in(decoded)
    found = match_unknown(places, lacking(source, characters), aligned(source, decoded, links))
    return applied(decoded, replace_unknown(decoded, places, found))


def test_unknown_token_becomes_the_characters_that_its_attention_is_highest_at() -> None:
    source, decoded = "(ein) Hund &", "a \u2047  \u2047 dog \u2047 "
    assert [source[start:end] for start, end in words(source)] == ["(", "ein", ")", "Hund", "&"]
    links = [(1, 0), (2, 1), (0, 2), (3, 3), (4, 4)]
    assert filled(source, decoded, links, "()&") == "a)(dog&"


def test_unknown_token_without_source_characters_is_removed() -> None:
    # The unknown token is aligned with a word whose characters the tokenizer has.
    assert filled("over the (bridge", " \u2047 ber die Brücke", [(0, 0), (1, 2), (3, 3)], "(") == (
        "ber die Brücke"
    )
    assert filled("a b", "a  \u2047  b", [], "") == "a b"


def test_source_characters_are_used_once() -> None:
    assert filled("a &", "a \u2047  \u2047 ", [(0, 0), (1, 1), (1, 2)], "&") == "a&"


@pytest.mark.parametrize(
    ("decoded", "expected"),
    [
        ("a  \u2047  b", "a b"),
        ("a \u2047 b", "ab"),
        ("a  \u2047   \u2047  b", "a b"),
        ("a  \u2047 ", "a"),
        ("a  \u2047 .", "a."),
        (" \u2047  a", "a"),
        (" \u2047 ", ""),
    ],
)
def test_removed_token_leaves_no_superfluous_blank(decoded: str, expected: str) -> None:
    assert applied(decoded, replace_unknown(decoded, places_in(decoded), {})) == expected


@given(st.lists(st.sampled_from([" \u2047 ", "a", " ", "."]), max_size=8), st.data())
def test_no_unknown_token_is_left(parts: list[str], data: st.DataObject) -> None:
    decoded = "".join(parts)
    places = places_in(decoded)
    replacements = {
        place: Replacement(data.draw(st.sampled_from(["(", " %", "Öl"])))
        for place in places
        if data.draw(st.booleans())
    }
    edits = replace_unknown(decoded, places, replacements)
    text = applied(decoded, edits)
    assert "\u2047" not in text
    assert text.count("a") == decoded.count("a")
    ends = [0, *(edit.end for edit in edits)]
    assert all(end <= edit.start <= edit.end for end, edit in zip(ends, edits, strict=False))


@dataclass(frozen=True)
class Both:
    source: Tokenizer
    target: Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    texts = ["ein Hund", "der Hund ist da", "ein und der", "Rind und Hund"] * 9
    return train_tokenizer(texts, path, vocabulary_size=21)


@pytest.mark.parametrize("text", ["(Hund)", "ein § Hund", "Hund§§", "ein Hund", "§", ""])
def test_spelled_out_text_has_the_characters_that_the_tokenizer_lacks(
    tokenizer: Tokenizer, text: str
) -> None:
    assert spelled_out(text, tokenizer) == text


def test_characters_that_one_of_two_tokenizers_lacks_are_unknown(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    other = train_tokenizer(["ein Öl (Hund"] * 9, tmp_path / "other", vocabulary_size=15)
    found = unknown_in("Öl ( § da", Both(tokenizer, other))
    assert [each.text for each in found] == ["Öl", "(", "§", "a"]
    assert [each.text for each in unknown_in("Öl §", Both(tokenizer, tokenizer))] == ["Öl", "§"]
