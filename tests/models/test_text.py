from __future__ import annotations

import time
import unicodedata
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text import numbers, visible, visible_origins

_TEXTS = st.text(
    st.sampled_from(
        "ab \t\n\u00a0\u00ad\u200b\u200d\ufeff\u0301\u0308\u1100\u1161\u11a8\u09c7\u09be"
    )
    | st.characters()
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("die\u00a0Katze", "die Katze"),
        ("Hu\u00adnd", "Hund"),
        ("scha\u0308ft", "schäft"),
        ("e\u200b\u0301", "é"),
        (" a\t\t b\u0000", "a b"),
        ("\u200b", ""),
    ],
)
def test_invisible_characters_are_removed_and_letters_composed(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_origins_cover_accents_and_invisible_characters() -> None:
    assert visible_origins("Hu\u00adnd  la\u0308uft ") == (
        *((0, 1), (1, 3), (3, 4), (4, 5), (5, 6)),
        *((7, 8), (8, 10), (10, 11), (11, 12), (12, 13)),
    )


@given(_TEXTS)
def test_every_visible_character_has_an_origin(text: str) -> None:
    found, origins = visible(text), visible_origins(text)
    assert len(found) == len(origins)
    assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(origins))
    for character, (start, end) in zip(found, origins, strict=True):
        assert character in visible(text[start:end]) or character == " "
    assert unicodedata.is_normalized("NFC", found)
    assert visible(found) == found


@given(
    st.text(st.sampled_from("a\u00e4\u1ead\u0301\u0323\u0344\u0f73\u0345\u09c7\u09be\uac00\u11a8"))
)
def test_accents_in_any_order_become_nfc(text: str) -> None:
    assert visible(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("accents", ["\u0301\u0323", "\u0f73"])
def test_long_run_of_accents_takes_linear_time(accents: str) -> None:
    before = time.thread_time()
    visible("a" + accents * 25_000)
    assert time.thread_time() - before < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Im Jahr 1935 und 1940.", ["1935", "1940"]),
        ("1,000 and 1.000 and 1\u202f000 and 1'000", ["1000"] * 4),
        ("10:30 h, 3.5 %", ["1030", "35"]),
        ("no figure", []),
    ],
)
def test_separators_within_a_number_are_left_out(text: str, expected: list[str]) -> None:
    assert numbers(text) == Counter(expected)
