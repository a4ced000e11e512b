from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.words import is_punctuation, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hallo, Welt!", ["Hallo", ",", "Welt", "!"]),
        ("Na ja ... 3,14 und 1.000", ["Na", "ja", "...", "3,14", "und", "1.000"]),
        (
            "don't l'homme \u043e\u0431'\u0454\u043a\u0442",
            ["don't", "l'", "homme", "\u043e\u0431'\u0454\u043a\u0442"],
        ),
        ("well-known", ["well", "-", "known"]),
        ("これは。", ["こ", "れ", "は", "。"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("รับ", ["รั", "บ"]),
        ("👨\u200d👩\u200d👧 🇩🇪🇫🇷 👍🏽", ["👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "👍🏽"]),
    ],
)
def test_words_and_punctuation_are_separate_in_any_script(text, expected) -> None:
    assert [text[start:end] for start, end in words(text)] == expected


@given(st.text(max_size=40))
def test_every_non_blank_character_is_in_one_word(text) -> None:
    position = 0
    for start, end in words(text):
        assert not text[position:start].strip()
        assert start < end
        assert not any(character.isspace() for character in text[start:end])
        position = end
    assert not text[position:].strip()


def test_punctuation_has_neither_letters_nor_digits() -> None:
    assert is_punctuation("...")
    assert not is_punctuation("3,14")


def test_words_in_a_whole_span_are_merged() -> None:
    assert words("ab C++ d", [(3, 6)]) == ((0, 2), (3, 6), (7, 8))
    assert words("ab C++ d", [(6, 7)]) == words("ab C++ d")
