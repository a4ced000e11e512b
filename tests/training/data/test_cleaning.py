from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from training.data.cleaning import Cleaner, Filters, normalise, sides_of
from training.data.corpus import Pair
from training.data.seen import Seen


@given(text=st.text())
@example(text="e\u200b\u0301")
@example(text="a\u00adb \u2028 c")
@example(text="&amp;amp;lt;&#8203;&am&shy;p;&notit;")
def test_normalise_is_idempotent(text: str) -> None:
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
        ("stone &amp; tile", "stone & tile"),
        ("&quot;Q&amp;A&quot;&#39;s &#x2013; &lt;1&gt;", '"Q&A"\'s – <1>'),
        ("twice &amp;quot;", 'twice "'),
        ("&am\u200bp;", "&"),
        ("fünf&nbsp;Hunde&shy;", "fünf Hunde"),
        ("?a=1&copy=2 &notit; AT&T; R&D", "?a=1&copy=2 &notit; AT&T; R&D"),
    ],
)
def test_normalise_removes_invisible_characters_and_collapses_blanks(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def cleaned(cleaner: Cleaner, pairs: list[Pair], **filters: Any) -> list[Pair]:
    verdicts = Filters(**{"max_words": 20, "max_ratio": 4.0, **filters}).judge(pairs)
    normalised = [*map(Pair, verdicts.sources, verdicts.targets)]
    return [normalised[place] for place in cleaner.kept_of(verdicts)]


def clean(*pairs: tuple[str, str], max_words: int = 20) -> tuple[list[Pair], dict[str, int]]:
    cleaner = Cleaner()
    kept = cleaned(cleaner, [Pair(*pair) for pair in pairs], max_words=max_words, max_ratio=3.0)
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
        (("w" * 401, "w"), "too many characters"),
        (("w", "w" * 401), "too many characters"),
        ((words(16), words(5)), "length ratio"),
        ((words(5), words(16)), "length ratio"),
        (("one two three four", "one  two three four"), "untranslated"),
        (("one, two three four", "One two three four."), "untranslated"),
    ],
)
def test_bad_pair_is_dropped_and_counted(pair: tuple[str, str], objection: str) -> None:
    kept, dropped = clean(pair)
    assert kept == []
    assert dropped == {objection: 1}


@pytest.mark.parametrize(
    "pair",
    [
        (words(20, "a"), words(20, "b")),
        (words(15, "a"), words(5, "b")),
        (words(10, "a"), "b"),
        ("a" * 400, "b"),
        ("Berlin", "Berlin"),
        ("Angela Merkel Berlin", "Angela Merkel Berlin"),
    ],
)
def test_a_pair_within_bounds_is_kept(pair: tuple[str, str]) -> None:
    assert clean(pair) == ([Pair(*pair)], {})


@pytest.mark.parametrize(
    "sentence",
    [
        "今日は天気がとても良いので、友達と一緒に公園へ散歩に行きました。",
        "今天天气很好,所以我和朋友们一起去公园散步了。",
        "วันนี้อากาศดีมาก ฉันจึงไปเดินเล่นในสวนสาธารณะกับเพื่อน",
    ],
)
def test_sentences_without_blanks_are_kept_and_held_out(sentence: str) -> None:
    pair = Pair(sentence, "The weather was very nice today, so I went for a walk with my friends.")
    bounds = {"max_words": 64, "max_ratio": 4.0}
    assert cleaned(Cleaner(), [pair], **bounds) == [pair]
    cleaner, other = Cleaner(), Pair(sentence, "We all took the long way home again.")
    assert cleaned(cleaner, [other], held_out=sides_of(pair), **bounds) == []
    assert cleaner.dropped == {"held out": 1}


def test_duplicate_with_other_blanks_is_dropped() -> None:
    kept, dropped = clean(("ein Hund", "a dog"), ("ein  Hund ", "a dog"), ("ein Hund", "one dog"))
    assert kept == [Pair("ein Hund", "a dog"), Pair("ein Hund", "one dog")]
    assert dropped == {"duplicate": 1}


MAN = ("ein Mann", "a man")
GOES_ON = "w x y z " * 20
FRENCH = ("Der Hund schläft unter dem Tisch.", "Le chien dort tranquillement sous la table.")
OPTIONS: dict[str, dict[str, Any]] = {
    "same numbers": {"same_numbers": True},
    "machine target": {"machine": "target", "max_words": 200, "max_ratio": 99.0},
    "machine source": {"machine": "source", "max_words": 200, "max_ratio": 99.0},
    "generated": {"generated": True},
    "noisy": {"noisy": ("de", "en"), "max_words": 50},
    "held out": {"held_out": sides_of(Pair("Ein Hund rennt los.", "A dog starts running."))},
}


@pytest.mark.parametrize(
    ("options", "pair", "objection"),
    [
        ("same numbers", ("1.000 Hunde in 2 Körben", "1,000 dogs in 2 baskets"), None),
        ("same numbers", ("Um 11:35 Uhr", "At 11.35"), None),
        ("same numbers", ("3 Hunde", "4 dogs"), "other numbers"),
        ("same numbers", ("3 Hunde", "dogs"), "other numbers"),
        ("machine target", (MAN[0], ""), "empty"),
        ("machine target", (MAN[0], "a man and " * 4), "machine repeats itself"),
        ("machine target", (MAN[0], "ein Haus aaaaaaaaaaaaaaa"), "machine repeats itself"),
        ("machine target", (MAN[0], GOES_ON), "machine goes on"),
        ("machine source", (GOES_ON, MAN[1]), "machine goes on"),
        ("machine source", ("a man and " * 4, MAN[1]), "machine repeats itself"),
        # Repetition on both sides.
        ("machine target", ("ja ja ja ja ja", "yes yes yes yes yes"), None),
        ("generated", ("1 2 3 4", "1 2 3 4"), None),
        ("noisy", (FRENCH[0], "The dog is sleeping under the table."), None),
        ("noisy", FRENCH, "other language"),
        (
            "noisy",
            ("This sentence was never translated into German.", "A German version is missing."),
            "other language",
        ),
        # Short sides and names are not judged by language.
        ("noisy", ("OK", "OK"), None),
        ("noisy", ("Version 2.0", "Version 2.0"), None),
        ("noisy", ("Von Alice Bob Carol Dave", "By Alice Bob Carol Dave"), "overlap"),
        ("held out", ("Noch ein Hund!", "a dog starts  RUNNING"), "held out"),
        ("held out", ("ein hund rennt los", "Another dog runs."), "held out"),
        ("held out", ("Ein Hund", "A dog"), None),
    ],
)
def test_optional_filters_drop_and_count(
    options: str, pair: tuple[str, str], objection: str | None
) -> None:
    cleaner = Cleaner()
    kept = cleaned(cleaner, [Pair(*pair)], **OPTIONS[options])
    assert len(kept) == cleaner.kept == (objection is None)
    assert cleaner.dropped == ({objection: 1} if objection else {})


def test_duplicate_across_corpora_is_dropped() -> None:
    known = Seen()
    for dropped in ({}, {"duplicate": 1}):
        cleaner = Cleaner(known=known)
        cleaned(cleaner, [Pair("ein Hund", "a dog")])
        assert cleaner.dropped == dropped


sides = st.lists(st.sampled_from(["a", "b", "\u200b", "c d"]), max_size=8).map(" ".join)


@given(pairs=st.lists(st.tuples(sides, sides)))
def test_every_pair_is_kept_or_counted_as_dropped(pairs: list[tuple[str, str]]) -> None:
    kept, dropped = clean(*pairs, max_words=6)
    assert len(kept) + sum(dropped.values()) == len(pairs)
    assert len(set(kept)) == len(kept)


def test_language_is_identified_after_the_cheap_filters_and_before_the_record_of_pairs() -> None:
    known = Seen()
    cleaner = Cleaner(known=known)
    pairs = [Pair(*FRENCH), Pair(words(51), FRENCH[1])]
    assert cleaned(cleaner, pairs, max_words=50, noisy=("de", "en")) == []
    assert cleaner.dropped == {"other language": 1, "too long": 1}
    assert cleaned(Cleaner(known=known), pairs[:1], max_words=50) == pairs[:1]


def test_pairs_alike_but_for_figures_are_kept_up_to_the_limit() -> None:
    cleaner = Cleaner(same_template=2)
    pairs = [Pair(f"Seite {i} von 20", f"Page {i} of 20") for i in range(5)]
    assert cleaned(cleaner, pairs) == pairs[:2]
    assert dict(cleaner.dropped) == {"boilerplate": 3}


def test_duplicates_take_no_place_of_pairs_that_differ_in_figures() -> None:
    cleaner = Cleaner(same_template=3)
    pages = [Pair(f"Seite {i}", f"page {i}") for i in (5, 5, 5, 6, 7, 8)]
    assert [pair.target for pair in cleaned(cleaner, pages)] == ["page 5", "page 6", "page 7"]
    assert dict(cleaner.dropped) == {"duplicate": 2, "boilerplate": 1}


@given(texts=st.lists(st.text(max_size=3)))
def test_add_returns_true_once_per_text(texts: list[str]) -> None:
    seen, plain = Seen(), set[str]()
    for text in texts:
        assert seen.add(text) == (text not in plain)
        plain.add(text)


def test_growth_keeps_all_texts() -> None:
    seen = Seen()
    assert all(seen.add(str(i)) for i in range(10_000))
    assert not any(seen.add(str(i)) for i in range(10_000))
    assert seen.add("10000")
