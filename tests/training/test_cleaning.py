from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from training.data.cleaning import Cleaner, normalise
from training.data.corpus import Pair


@given(text=st.text())
@example(text="e\u200b\u0301")
@example(text="a\u00adb \u2028 c")
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert once == once.strip() and "  " not in once


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  ein\u00a0\t Hund \n", "ein Hund"),
        ("a\u0308", "ä"),
        ("e\u200b\u0301", "é"),
        ("Fuß\u00adball", "Fußball"),
        ("\ufeffDer", "Der"),
        ("a\x00b\x07c", "a b c"),
        ("a\u2028b", "a b"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u200b", ""),
    ],
)
def test_what_nobody_sees_goes_and_blanks_are_one_blank(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def clean(*pairs: tuple[str, str], max_words: int = 20) -> tuple[list[Pair], dict[str, int]]:
    cleaner = Cleaner(max_words=max_words, max_ratio=3.0)
    kept = list(cleaner.clean(Pair(*pair) for pair in pairs))
    assert cleaner.seen == len(pairs)
    assert cleaner.kept == len(kept)
    return kept, dict(cleaner.dropped)


def words(count: int, word: str = "w") -> str:
    return " ".join([word] * count)


@pytest.mark.parametrize(
    ("pair", "objection"),
    [
        (("", "text"), "empty"),
        (("text", " \u200b "), "empty"),
        ((words(21), words(20)), "too long"),
        ((words(20), words(21)), "too long"),
        ((words(16), words(5)), "length ratio"),
        ((words(5), words(16)), "length ratio"),
        (("one two three four", "one  two three four"), "untranslated"),
    ],
)
def test_a_pair_that_teaches_nothing_is_dropped_by_name(
    pair: tuple[str, str], objection: str
) -> None:
    kept, dropped = clean(pair)
    assert kept == []
    assert dropped == {objection: 1}


@pytest.mark.parametrize(
    "pair",
    [
        (words(20, "a"), words(20, "b")),
        (words(15, "a"), words(5, "b")),
        (words(10, "a"), "b"),
        ("Berlin", "Berlin"),
        ("Angela Merkel Berlin", "Angela Merkel Berlin"),
    ],
)
def test_a_pair_within_bounds_is_kept(pair: tuple[str, str]) -> None:
    assert clean(pair) == ([Pair(*pair)], {})


def test_a_pair_is_kept_once_however_its_blanks_are_written() -> None:
    kept, dropped = clean(("ein Hund", "a dog"), ("ein  Hund ", "a dog"), ("ein Hund", "one dog"))
    assert kept == [Pair("ein Hund", "a dog"), Pair("ein Hund", "one dog")]
    assert dropped == {"duplicate": 1}


sides = st.lists(st.sampled_from(["a", "b", "\u200b", "c d"]), max_size=8).map(" ".join)


@given(pairs=st.lists(st.tuples(sides, sides)))
def test_what_is_seen_is_kept_or_counted_as_dropped(pairs: list[tuple[str, str]]) -> None:
    kept, dropped = clean(*pairs, max_words=6)
    assert len(kept) + sum(dropped.values()) == len(pairs)
    assert len(set(kept)) == len(kept)


def test_clean_pairs_stay_clean() -> None:
    kept, _ = clean(("ein  Hund", "a dog"), ("", "x"), (words(30), "y"))
    assert clean(*kept) == (kept, {})
