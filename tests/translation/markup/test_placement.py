from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.alignment import Alignment
from service.text.markup import PLAIN, MarkedSentence, TooMuchMarkup, parse
from service.text.markup.placement import Ranges
from service.text.words import words
from tests.translation.markup.making import HTML, aligned, rendered, translated


@pytest.mark.parametrize(
    ("text", "target", "links", "expected"),
    [
        # Elements follow their words in any order.
        (
            "Das <b>rote Haus</b> ist <i>alt</i>.",
            "Old is the red house.",
            [(0, 2), (1, 3), (2, 4), (3, 1), (4, 0), (5, 5)],
            "<i>Old</i> is the <b>red house</b>.",
        ),
        # If the words of an element are separated, it encloses the largest group.
        (
            "Er <b>gibt nicht auf</b> heute.",
            "Up today he does not give.",
            [(0, 2), (1, 5), (2, 4), (3, 0), (4, 1), (5, 6)],
            "Up today he <b>does not give</b>.",
        ),
        # Nested.
        (
            "<b>sehr <i>gut</i></b> gemacht",
            "done very well",
            [(0, 1), (1, 2), (2, 0)],
            "done <b>very <i>well</i></b>",
        ),
        # Punctuation stays outside, even if it attends to a word inside.
        (
            "ein <b>Wort</b>, ja",
            "a word, yes",
            [(0, 0), (1, 1), (1, 2), (3, 3)],
            "a <b>word</b>, yes",
        ),
        # Punctuation inside the source element stays inside.
        ("ein <b>Wort!</b> Ja", "a word! Yes", [(0, 0), (1, 1), (3, 3)], "a <b>word!</b> Yes"),
        # A tag inside a word goes around its translation, or inside it if the word is the same.
        ("ein Haus<b>tier</b> ist", "a pet is", [(0, 0), (1, 1), (2, 2)], "a <b>pet</b> is"),
        (
            "Wasser ist H<sub>2</sub>O",
            "H2O is water",
            [(0, 2), (1, 1), (2, 0)],
            "H<sub>2</sub>O is water",
        ),
        ("rufen Sie an<sup>1</sup>", "call us1", [(1, 1), (2, 1)], "call us<sup>1</sup>"),
        ("der 1<sup>te</sup> Satz", "the 1st set", [(0, 0), (1, 1)], "the 1<sup>st</sup> set"),
        # The element is at the end of the sentence.
        ("das ist <b>alt</b>", "old is that", [(0, 2), (1, 1), (2, 0)], "<b>old</b> is that"),
        # An element without target words stays between its neighbours.
        (
            "das sehen <b>doch</b> wir",
            "we see that",
            [(0, 2), (1, 1), (3, 0)],
            "we see <b></b>that",
        ),
        ("ein <a name=x></a>Wort", "a word", [(0, 0), (1, 1)], "a <a name=x></a>word"),
    ],
)
def test_tags_are_placed_by_alignment(text, target, links, expected) -> None:
    assert rendered(text, target, links) == expected


@pytest.mark.parametrize(
    ("text", "target", "weights_TS", "expected"),
    [
        # More attention to the element than any other word has, but less than to the rest.
        (
            "er läuft <i>schnell</i> heute",
            "runs fast today",
            [[0.2, 0.6, 0.2, 0.0], [0.1, 0.3, 0.4, 0.2], [0.0, 0.1, 0.1, 0.8]],
            "runs <i>fast</i> today",
        ),
        # The words beside it follow if they attend most to the element.
        (
            "er <b>gibt auf</b> sagt er",
            "gives up he",
            [[0.5, 0.2, 0.1, 0.1, 0.1], [0.3, 0.05, 0.35, 0.2, 0.1], [0.5, 0.0, 0.0, 0.0, 0.5]],
            "gives <b>up</b> he",
        ),
        (
            "er <b>gibt auf</b> sagt er",
            "gives up he",
            [[0.3, 0.4, 0.0, 0.2, 0.1], [0.3, 0.05, 0.35, 0.2, 0.1], [0.5, 0.0, 0.0, 0.0, 0.5]],
            "<b>gives up</b> he",
        ),
        # A word of a sibling stays with it.
        (
            "wir <b>das</b> <i>Haus</i>",
            "the house",
            [[0.3, 0.2, 0.5], [0.3, 0.1, 0.6]],
            "<b></b><i>the house</i>",
        ),
        # The word with more attention to an element is given first.
        (
            "wir <b>sehr</b> <i>gern</i> heute",
            "gladly today",
            [[0.4, 0.25, 0.35, 0.0], [0.0, 0.0, 0.0, 1.0]],
            "<b></b><i>gladly</i> today",
        ),
        # Punctuation is no translation of a word.
        (
            "wir <b>gern</b>, heute",
            "today ,",
            [[0.4, 0.1, 0.0, 0.5], [0.4, 0.5, 0.1, 0.0]],
            "today <b></b>,",
        ),
    ],
)
def test_element_without_the_majority_of_attention_gets_its_likeliest_word(
    text: str, target: str, weights_TS: list[list[float]], expected: str
) -> None:
    def render(sentence: MarkedSentence) -> str:
        weights = np.array(weights_TS, dtype=np.float32)
        return sentence.render(target, Alignment(words(sentence.text), words(target), weights))

    whole = translated(text, HTML, render, lambda plain: [(0, len(plain))])
    assert whole == expected


@pytest.mark.parametrize(
    ("text", "target", "links", "expected"),
    [
        (
            "Hallo {name}, wie geht's?",
            "How are you, Hello?",
            [(0, 4), (1, 3)],
            "How are you, Hello {name}?",
        ),
        ("Ja, {name} kommt", "Yes, comes", [(0, 0), (1, 1), (2, 2)], "Yes, {name} comes"),
        ("Sieh (auf {url}) nach", "Look (at)", [(0, 0), (1, 1), (2, 2), (3, 3)], "Look (at {url})"),
        ("nur {n}kg mehr", "kg more only", [(0, 2), (1, 0), (2, 1)], "{n}kg more only"),
        ("sag „{name}“ laut", "loud say „“", [(0, 1), (1, 2), (2, 3), (3, 0)], "loud say „{name}“"),
        ("von {a}{b} {c} an", "from on", [(0, 0), (1, 1)], "from {a}{b} {c} on"),
        ("auf <b>{url}</b>, da", "on, there", [(0, 0), (1, 1), (2, 2)], "on <b>{url}</b>, there"),
        ("lies {url} jetzt", "今読む", [(0, 1), (1, 0)], "今読{url}む"),
        ("a {x} b", "", [], "{x}"),
        # A full stop may be aligned with a word.
        ("sieh {url}.", "and others", [(0, 0), (1, 1)], "and {url} others"),
        ("(ab {url})", "we others", [(1, 0), (2, 1)], "we {url} others"),
        ("„{url}“ ab", "others ab", [(0, 0), (2, 1)], "others {url} ab"),
    ],
)
def test_placeholders_keep_their_blanks(text, target, links, expected) -> None:
    assert rendered(text, target, links, PLAIN if "<" not in text else HTML) == expected


def test_an_element_across_sentences_reaches_the_end_of_one_and_the_start_of_the_next() -> None:
    targets = {
        "Heute ist es rot.": ("It is red today.", [(0, 3), (1, 1), (2, 0), (3, 2), (4, 4)]),
        "Und da ist es.": ("And there it is.", [(0, 0), (1, 1), (2, 3), (3, 2), (4, 4)]),
    }

    def render(sentence: MarkedSentence) -> str:
        target, links = targets[sentence.text]
        return sentence.render(target, aligned(sentence.text, target, links))

    text = "Heute <b>ist <i>es rot</i>. Und da</b> ist es."
    assert translated(text, HTML, render) == ("<b><i>It is red</i> today. And there</b> it is.")


def test_without_alignment_marks_are_placed_at_the_same_relative_position() -> None:
    (run,) = parse("eins zwei <b>drei vier</b> fünf", HTML).runs
    (sentence,) = run.cut([(0, len(run.text))]).sentences
    assert sentence.render("one two three four five", None) == "one two <b>three four</b> five"


def test_weights_of_wrong_shape_raise_value_error() -> None:
    (run,) = parse("eins <b>zwei</b> drei", HTML).runs
    (sentence,) = run.cut([(0, len(run.text))]).sentences
    alignment = Alignment(words("eins zwei drei"), words("one"), np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match="shape"):
        sentence.render("one", alignment)


def test_no_mark_is_placed_inside_whole_spans() -> None:
    """Such as a glossary term of several words."""
    [run] = parse("a <b>b</b> {x} c", HTML).runs
    [sentence] = run.cut([(0, len(run.text))]).sentences
    target = "C D {e f} g"
    weights_TS = np.full((2, len(words(sentence.text))), 0.5, np.float32)
    whole = [(0, 9)]
    alignment = Alignment(words(sentence.text), words(target, whole), weights_TS)
    assert "C D {e f}" in sentence.render(target, alignment, whole)
    assert "C D {e f}" in sentence.render(target, None, whole)


def plain_best_range(scores: list[float], free: list[bool], pinned: str | None) -> float:
    """Plain twin of ``Ranges.best``: the highest score of a free range, 0 for an empty one."""
    ranges = [
        (start, end)
        for start in range(len(scores))
        for end in range(start + 1, len(scores) + 1)
        if all(free[start:end])
        and (pinned != "left" or start == 0)
        and (pinned != "right" or end == len(scores))
    ]
    return max((sum(scores[start:end]) for start, end in ranges), default=0.0)


WORDS = st.tuples(st.integers(-1, 2), st.booleans(), st.booleans(), st.floats(0, 1, width=32))


@given(st.lists(WORDS, min_size=1, max_size=12), st.sampled_from([None, "left", "right"]))
def test_range_of_words_has_the_highest_score(
    words: list[tuple[int, bool, bool, float]], pinned: str | None
) -> None:
    labels = [label for label, _, _, _ in words]
    ranges = Ranges(labels, [is_mark for _, is_mark, _, _ in words])
    for number, (_, _, is_taken, _) in enumerate(words):
        if is_taken:
            ranges.take(number, number + 1)
    if not ranges.count(1):
        return
    shares_T = np.array([share for _, _, _, share in words], np.float32)
    scores = [
        (1.0 if label == 1 else -0.25 if label == -1 or is_mark else -1.0) + 1e-3 * float(share)
        for (label, is_mark, _, share) in words
    ]
    start, end = ranges.best(1, shares_T, pinned)
    assert all(ranges.free[start:end])
    best = max(0.0, plain_best_range(scores, ranges.free, pinned))
    assert sum(scores[start:end]) == pytest.approx(best)


def test_sentence_with_too_many_tags_is_refused() -> None:
    with pytest.raises(TooMuchMarkup, match="1500 tags"):
        rendered("Wort " + "<b></b>" * 1_500 + " Wort", "word word", [])
