from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.translation.alignment import Alignment
from service.translation.glossary.term_index import TermIndex
from service.translation.glossary.term_insertion import Forced, displaced, insert_terms
from service.translation.types import Term
from service.translation.words import words
from tests.translation.markup.making import aligned

NOTHING = Forced()


def insisted(source: str, translation: str, links, terms: dict[str, str], forced=NOTHING) -> str:
    said = TermIndex([Term(*entry) for entry in terms.items()]).occurrences_in(source)
    result = insert_terms(translation, said, aligned(source, translation, links), forced)
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


def test_letters_joined_to_a_forced_term_are_removed() -> None:
    terms, links = {"Hund": "hound"}, [(0, 0), (1, 1), (2, 2)]
    forced = Forced("", "a hound")
    assert insisted("ein Hund rennt", "a hounders runs", links, terms, forced) == "a hound runs"


def test_forced_prefix_of_the_request_is_kept() -> None:
    forced = Forced("a dog", "a dog")
    links = [(0, 0), (1, 1), (2, 2)]
    text = insisted("ein Hund rennt", "a dog runs", links, {"Hund": "hound"}, forced)
    assert text == "a dog hound runs"


def test_displaced_word_after_its_term_is_removed() -> None:
    source, said = (
        "ein Hund rennt",
        TermIndex([Term("Hund", "hound")]).occurrences_in("ein Hund rennt"),
    )
    before = aligned(source, "a dog runs", [(0, 0), (1, 1), (2, 2)])
    gone = displaced("a dog runs", said, before)
    assert gone == {"dog"}
    after = aligned(source, "a hound dog runs", [(0, 0), (1, 1), (2, 2), (2, 3)])
    result = insert_terms("a hound dog runs", said, after, Forced("", "a hound", gone))
    assert result.text == "a hound runs"


def test_inserted_term_is_one_target_word_aligned_with_its_source() -> None:
    said = TermIndex([Term("Hund", "C++ x")]).occurrences_in("ein Hund")
    result = insert_terms("a dog", said, aligned("ein Hund", "a dog", [(0, 0), (1, 1)]))
    assert result.text == "a C++ x"
    assert result.written == ((2, 7),)
    assert result.alignment.target_words == ((0, 1), (2, 7))
    assert result.alignment.weights_TS.argmax(1).tolist() == [0, 1]


LETTERS = st.sampled_from(["a", "b", "c", "d", "A", "B", "C", "D", "A B", "B.", "(C)", ",", "漢"])
SENTENCES = st.lists(LETTERS, max_size=8).map(" ".join)


@given(
    SENTENCES,
    SENTENCES,
    st.dictionaries(LETTERS, LETTERS),
    st.sampled_from(["", "A", "B a"]),
    st.integers(0, 2**32 - 1),
)
def test_every_term_is_inserted_into_any_translation(
    source, translation, glossary, prefix, seed
) -> None:
    said = TermIndex([Term(*entry) for entry in glossary.items()]).occurrences_in(source)
    translation = prefix + translation
    source_words, target_words = words(source), words(translation)
    weights_TS = np.random.default_rng(seed).random((len(target_words), len(source_words))) ** 4
    weights_TS /= weights_TS.sum(1, keepdims=True)
    alignment = Alignment(source_words, target_words, weights_TS.astype(np.float32))

    result = insert_terms(translation, said, alignment, Forced(prefix, prefix, frozenset("aA")))

    text, sums_T = result.text, result.alignment.weights_TS.sum(1)
    assert text.startswith(prefix)
    for target in {each.term.target for each in said}:
        wanted = sum(each.term.target == target for each in said)
        assert len(re.findall(re.escape(target), text)) >= wanted
    assert sorted(text[slice(*term)] for term in result.written) == sorted(
        each.term.target for each in said
    )
    assert result.alignment.target_words == words(text, result.written)
    assert np.allclose(sums_T * (sums_T - 1), 0, atol=1e-5)
