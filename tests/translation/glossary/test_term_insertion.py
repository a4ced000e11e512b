from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.alignment import Alignment, Floats, Span
from service.text.glossary.term_index import TermIndex
from service.text.glossary.term_insertion import found_in, insert_terms
from service.text.types import Term
from service.text.words import words
from tests.translation.markup.making import aligned


def insisted(source: str, translation: str, links, terms: dict[str, str], prefix: str = "") -> str:
    said = TermIndex([Term(*entry) for entry in terms.items()]).occurrences_in(source)
    result = insert_terms(translation, said, aligned(source, translation, links), prefix)
    target_words = words(result.text, result.written)
    assert result.alignment.target_words == target_words
    assert result.alignment.weights_TS.shape == (len(target_words), len(words(source)))
    return result.text


@pytest.mark.parametrize(
    ("translation", "links", "terms", "expected"),
    [
        # A term replaces the words that attend to it.
        ("a dog runs", [(0, 0), (1, 1), (2, 2)], {"Hund": "C++"}, "a C++ runs"),
        ("runs a small dog", [(0, 1), (1, 2), (1, 3), (2, 0)], {"Hund": "自"}, "runs a 自"),
        # Without such words, it is inserted before the word that attends most.
        ("a runs", [(0, 0), (2, 1)], {"Hund": "™x"}, "™x a runs"),
        # A term already present is kept, and so are words after it that attend to its source.
        ("a hound runs", [(0, 0), (1, 1), (2, 2)], {"Hund": "hound"}, "a hound runs"),
        ("a hound dog", [(0, 0), (1, 1), (1, 2)], {"Hund": "hound"}, "a hound dog"),
        ("", [], {"Hund": "hound"}, "hound"),
        # A term that is a part of another term needs an occurrence of its own.
        (
            "a big dog runs",
            [(0, 0), (1, 2), (2, 3)],
            {"ein": "big dog", "Hund": "dog"},
            "dog a big dog runs",
        ),
    ],
)
def test_every_term_occurs_once_in_the_translation(translation, links, terms, expected) -> None:
    assert insisted("ein Hund rennt", translation, links, terms) == expected


@pytest.mark.parametrize(
    ("source", "translation", "links", "expected"),
    [
        # Marks that attend to the term: a hyphen, a comma, a full stop.
        ("Hund", "Qing-dog", [(0, 1), (0, 2)], "Qing-hound"),
        ("Hund", "dog, dog", [(0, 0), (0, 1)], "hound, dog"),
        ("Hund", "T-dog", [(0, 0), (0, 1), (0, 2)], "hound"),
        ("5 Hund", "5 %.", [(0, 0), (1, 1), (1, 2)], "5 hound."),
        ("a Hund", "runs.", [(0, 0), (1, 1)], "runs hound."),
        # An untranslated word, whose neighbour is a mark.
        ("a Hund", "runs.", [(0, 0), (0, 1), (1, 1)], "runs hound."),
        ("a Hund", "runs (fast).", [(0, 0), (0, 1), (1, 1), (0, 2), (0, 3)], "runs hound (fast)."),
    ],
)
def test_blanks_and_punctuation_around_a_term_are_kept(
    source: str, translation: str, links: list[tuple[int, int]], expected: str
) -> None:
    assert insisted(source, translation, links, {"Hund": "hound"}) == expected


@pytest.mark.parametrize(
    ("source", "translation", "term", "expected"),
    [
        ("nutzt C# heute", "uses C# today", ("C#", "C sharp"), "uses C sharp today"),
        ("er nutzt C#", "he uses C#.", ("C#", "C sharp"), "he uses C sharp."),
        ("die (alt) da", "the (old) there", ("(alt)", "(new)"), "the (new) there"),
        ("die Fa. Huber", "the firm. Huber", ("Fa.", "factory"), "the factory Huber"),
        ("bei der Fa.", "at the firm.", ("Fa.", "factory"), "at the factory."),
        ("ein Quiz „Wer?“", 'a quiz "Who?"', ("Wer?", "Who is it?"), 'a quiz "Who is it?"'),
        ("ein Quiz Wer?", "a quiz Who?", ("Wer?", "Who is it?"), "a quiz Who is it?"),
    ],
)
def test_marks_of_a_term_are_replaced_with_it(
    source: str, translation: str, term: tuple[str, str], expected: str
) -> None:
    links = [(number, number) for number in range(len(words(source)))]
    assert insisted(source, translation, links, dict([term])) == expected


@pytest.mark.parametrize(("attention", "expected"), [(0.55, "a hound"), (0.65, "hound")])
def test_neighbour_is_replaced_only_if_the_term_has_most_of_its_attention(
    attention: float, expected: str
) -> None:
    said = TermIndex([Term("Hund", "hound")]).occurrences_in("ein Hund")
    weights_TS = np.array([[1 - attention, attention], [0.1, 0.9]], np.float32)
    alignment = Alignment(words("ein Hund"), words("a dog"), weights_TS)
    assert insert_terms("a dog", said, alignment).text == expected


def test_forced_prefix_of_the_request_is_kept() -> None:
    links = [(0, 0), (1, 1), (2, 2)]
    text = insisted("ein Hund rennt", "a dog runs", links, {"Hund": "hound"}, "a dog")
    assert text == "a dog hound runs"


def test_term_inside_a_longer_term_does_not_count_as_present() -> None:
    said = TermIndex([Term("Rad", "bike"), Term("Rot", "red bike")]).occurrences_in(
        "ein Rad und Rot"
    )
    assert found_in("a red bike", said) == [None, (2, 10)]


def test_inserted_term_is_one_target_word_aligned_with_its_source() -> None:
    said = TermIndex([Term("Hund", "C++ x")]).occurrences_in("ein Hund")
    result = insert_terms("a dog", said, aligned("ein Hund", "a dog", [(0, 0), (1, 1)]))
    assert result.text == "a C++ x"
    assert result.written == ((2, 7),)
    assert result.alignment.target_words == ((0, 1), (2, 7))
    assert result.alignment.weights_TS.argmax(1).tolist() == [0, 1]


LETTERS = st.sampled_from(["a", "b", "c", "d", "A", "B", "C", "D", "A B", "B.", "(C)", ",", "漢"])
SENTENCES = st.lists(LETTERS, max_size=8).map(" ".join)


def attends_elsewhere(attention_S: Floats, source_words: Sequence[Span], term: Span) -> bool:
    inside_S = np.array([term[0] < end and start < term[1] for start, end in source_words])
    return bool(attention_S[inside_S].sum() <= attention_S[~inside_S].max(initial=0))


@given(
    SENTENCES,
    SENTENCES,
    st.dictionaries(LETTERS, LETTERS),
    st.sampled_from(["", "A", "B a"]),
    st.integers(0, 2**32 - 1),
)
def test_every_term_is_in_any_translation_and_words_of_other_words_stay(
    source, translation, glossary, prefix, seed
) -> None:
    said = TermIndex([Term(*entry) for entry in glossary.items()]).occurrences_in(source)
    translation = prefix + translation
    source_words, target_words = words(source), words(translation)
    weights_TS = np.random.default_rng(seed).random((len(target_words), len(source_words))) ** 4
    weights_TS /= weights_TS.sum(1, keepdims=True)
    alignment = Alignment(source_words, target_words, weights_TS.astype(np.float32))

    result = insert_terms(translation, said, alignment, prefix)

    text, sums_T = result.text, result.alignment.weights_TS.sum(1)
    assert text.startswith(prefix)
    position = 0
    for span, attention_S in zip(target_words, weights_TS, strict=True):
        if all(attends_elsewhere(attention_S, source_words, each.span) for each in said):
            position = text.index(translation[slice(*span)], position) + span[1] - span[0]
    for target in {each.term.target for each in said}:
        wanted = sum(each.term.target == target for each in said)
        assert len(re.findall(re.escape(target), text)) >= wanted
    assert sorted(text[slice(*term)] for term in result.written) == sorted(
        each.term.target for each in said
    )
    assert result.alignment.target_words == words(text, result.written)
    assert np.allclose(sums_T * (sums_T - 1), 0, atol=1e-5)
