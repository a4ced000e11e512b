from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from training.data.cleaning import Cleaner, normalise, sides_of
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


def test_duplicate_with_other_blanks_is_dropped() -> None:
    kept, dropped = clean(("ein Hund", "a dog"), ("ein  Hund ", "a dog"), ("ein Hund", "one dog"))
    assert kept == [Pair("ein Hund", "a dog"), Pair("ein Hund", "one dog")]
    assert dropped == {"duplicate": 1}


def test_same_numbers_drops_pairs_with_other_numbers() -> None:
    def dropped(source: str, target: str) -> dict[str, int]:
        cleaner = Cleaner(max_words=20, max_ratio=3.0, same_numbers=True)
        assert len(list(cleaner.clean([Pair(source, target)]))) == cleaner.kept
        return dict(cleaner.dropped)

    assert dropped("1.000 Hunde in 2 Körben", "1,000 dogs in 2 baskets") == {}
    assert dropped("Um 11:35 Uhr", "At 11.35") == {}
    assert dropped("3 Hunde", "4 dogs") == {"other numbers": 1}
    assert dropped("3 Hunde", "dogs") == {"other numbers": 1}


@pytest.mark.parametrize(
    ("made", "objection"),
    [
        ("", "empty"),
        ("a man and a man and a man and a man and", "machine repeats itself"),
        ("ein Haus aaaaaaaaaaaaaaa", "machine repeats itself"),
        ("w x y z " * 20, "machine goes on"),
    ],
)
def test_endless_machine_translation_is_dropped_and_counted(made: str, objection: str) -> None:
    for machine, pair in (("target", Pair("ein Mann", made)), ("source", Pair(made, "a man"))):
        cleaner = Cleaner(max_words=200, max_ratio=99.0, machine=machine)  # type: ignore[arg-type]
        assert list(cleaner.clean([pair])) == []
        assert cleaner.dropped == {objection: 1}


def test_generated_copies_are_kept() -> None:
    cleaner = Cleaner(max_words=20, max_ratio=3.0, generated=True)
    assert list(cleaner.clean([Pair("1 2 3 4", "1 2 3 4")])) == [Pair("1 2 3 4", "1 2 3 4")]


def test_repetition_on_both_sides_is_kept() -> None:
    cleaner = Cleaner(max_words=200, max_ratio=99.0, machine="target")
    pair = Pair("ja ja ja ja ja", "yes yes yes yes yes")
    assert list(cleaner.clean([pair])) == [pair]


def test_duplicate_across_corpora_is_dropped() -> None:
    known = Seen()
    for dropped in ({}, {"duplicate": 1}):
        cleaner = Cleaner(max_words=20, max_ratio=3.0, known=known)
        list(cleaner.clean([Pair("ein Hund", "a dog")]))
        assert cleaner.dropped == dropped


sides = st.lists(st.sampled_from(["a", "b", "\u200b", "c d"]), max_size=8).map(" ".join)


@given(pairs=st.lists(st.tuples(sides, sides)))
def test_every_pair_is_kept_or_counted_as_dropped(pairs: list[tuple[str, str]]) -> None:
    kept, dropped = clean(*pairs, max_words=6)
    assert len(kept) + sum(dropped.values()) == len(pairs)
    assert len(set(kept)) == len(kept)


def noisy(*pairs: tuple[str, str]) -> tuple[list[Pair], dict[str, int]]:
    cleaner = Cleaner(max_words=50, max_ratio=4.0, noisy=("de", "en"))
    kept = list(cleaner.clean(Pair(*pair) for pair in pairs))
    return kept, dict(cleaner.dropped)


def test_side_in_another_language_is_dropped_from_noisy_text() -> None:
    good = ("Der Hund schläft unter dem Tisch.", "The dog is sleeping under the table.")
    kept, dropped = noisy(
        good,
        ("Der Hund schläft unter dem Tisch.", "Le chien dort tranquillement sous la table."),
        ("This sentence was never translated into German.", "A German version is missing."),
    )
    assert kept == [Pair(*good)]
    assert dropped == {"other language": 2}


def test_language_is_identified_after_the_cheap_filters_and_before_the_record_of_pairs() -> None:
    french = ("Der Hund schläft unter dem Tisch.", "Le chien dort tranquillement sous la table.")
    known = Seen()
    cleaner = Cleaner(max_words=50, max_ratio=4.0, noisy=("de", "en"), known=known)
    too_long = (words(51), french[1])
    assert list(cleaner.clean([Pair(*french), Pair(*too_long)])) == []
    assert cleaner.dropped == {"other language": 1, "too long": 1}
    unjudged = Cleaner(max_words=50, max_ratio=4.0, known=known)
    assert list(unjudged.clean([Pair(*french)])) == [Pair(*french)]


def test_short_sides_and_names_are_not_judged_by_language() -> None:
    pairs = [("OK", "OK"), ("Taxi", "Taxi"), ("Version 2.0", "Version 2.0")]
    assert noisy(*pairs) == ([Pair(*pair) for pair in pairs], {})


def test_sides_that_share_most_words_are_dropped_from_noisy_text() -> None:
    kept, dropped = noisy(("Von Alice Bob Carol Dave", "By Alice Bob Carol Dave"))
    assert (kept, dropped) == ([], {"overlap": 1})


def test_pair_with_a_side_of_a_test_set_is_dropped() -> None:
    tested = sides_of(Pair("Ein Hund rennt los.", "A dog starts running."))
    cleaner = Cleaner(max_words=20, max_ratio=3.0, held_out=tested)
    pairs = [
        Pair("Noch ein Hund!", "a dog starts  RUNNING"),
        Pair("ein hund rennt los", "Another dog runs."),
        Pair("Ein Hund", "A dog"),
    ]
    assert list(cleaner.clean(pairs)) == [pairs[2]]
    assert dict(cleaner.dropped) == {"held out": 2}


def test_pairs_alike_but_for_figures_are_kept_up_to_the_limit() -> None:
    cleaner = Cleaner(max_words=20, max_ratio=3.0, same_template=2)
    pairs = [Pair(f"Seite {i} von 20", f"Page {i} of 20") for i in range(5)]
    assert list(cleaner.clean(pairs)) == pairs[:2]
    assert dict(cleaner.dropped) == {"boilerplate": 3}
