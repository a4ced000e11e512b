from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.translation.alignment import Alignment, Span
from service.translation.glossary.term_index import TermIndex
from service.translation.glossary.terms import MOST_FORCED, force_terms, found_in
from service.translation.types import Term


def spans(text: str) -> tuple[Span, ...]:
    found, start = [], 0
    for word in text.split(" "):
        if word:
            found.append((start, start + len(word)))
        start += len(word) + 1
    return tuple(found)


class WordForWord:
    """Translates each word by a table and aligns the words in order."""

    def __init__(self, sentence: str, table: dict[str, str]) -> None:
        self.sentence = sentence
        self.words = [table.get(word, word) for word in sentence.split()]
        self.forced: list[str] = []

    def translation(self) -> str:
        return " ".join(self.words)

    async def align(self, translation: str) -> Alignment:
        source, target = spans(self.sentence), spans(translation)
        weights_TS = np.full((len(target), len(source)), 0.01, np.float32)
        for word in range(len(target)):
            weights_TS[word, min(word, len(source) - 1)] = 1.0
        return Alignment(source, target, weights_TS)

    async def go_on(self, prefix: str) -> str:
        self.forced.append(prefix)
        return " ".join([prefix, *self.words[len(prefix.split()) :]])


def honoured(model: WordForWord, terms: Sequence[Term], prefix: str = "") -> str:
    said = TermIndex(terms).occurrences_in(model.sentence)
    return asyncio.run(force_terms(model.translation(), said, model.align, model.go_on, prefix))


def test_a_term_is_found_as_a_whole_word_only() -> None:
    said = TermIndex([Term("Hund", "hound")]).occurrences_in("Hund, Hunde und Kettenhund")
    assert [each.span for each in said] == [(0, 4)]


def test_the_longest_of_overlapping_terms_is_found() -> None:
    terms = [Term("Hund", "hound"), Term("alter Hund", "old hound")]
    assert [each.term.target for each in TermIndex(terms).occurrences_in("ein alter Hund")] == [
        "old hound"
    ]


def test_case_is_ignored_only_if_no_occurrence_has_the_same_case() -> None:
    assert len(TermIndex([Term("rot", "red")]).occurrences_in("Rot und rot")) == 1
    assert len(TermIndex([Term("rot", "red")]).occurrences_in("Rot und blau")) == 1


def test_term_already_in_the_translation_is_not_forced() -> None:
    model = WordForWord("ein Hund", {"ein": "a", "Hund": "hound"})
    assert honoured(model, [Term("Hund", "hound")]) == "a hound"
    assert model.forced == []


def test_missing_term_is_forced_at_the_words_aligned_with_it() -> None:
    model = WordForWord("ein Hund rennt", {"ein": "a", "Hund": "dog", "rennt": "runs"})
    assert honoured(model, [Term("Hund", "hound")]) == "a hound runs"


def test_every_occurrence_of_a_term_is_forced() -> None:
    model = WordForWord("Hund und Hund", {"Hund": "dog", "und": "and"})
    assert honoured(model, [Term("Hund", "hound")]) == "hound and hound"


def test_term_lost_by_forcing_an_earlier_one_is_forced_again() -> None:
    class Forgetful(WordForWord):
        async def go_on(self, prefix: str) -> str:
            whole = await super().go_on(prefix)
            return prefix + whole[len(prefix) :].replace("cat", "pet")

    model = Forgetful("Hund und Katze", {"Hund": "dog", "und": "and", "Katze": "cat"})
    assert honoured(model, [Term("Hund", "hound"), Term("Katze", "cat")]) == "hound and cat"


def test_prefix_of_the_request_is_kept() -> None:
    model = WordForWord("Hund rennt", {"Hund": "dog", "rennt": "runs"})
    assert honoured(model, [Term("Hund", "hound")], prefix="dog ").startswith("dog ")


WORDS = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(WORDS, min_size=1, max_size=8), st.dictionaries(WORDS, WORDS.map(str.upper)))
def test_every_term_occurs_as_often_as_in_the_source(
    sentence: list[str], glossary: dict[str, str]
) -> None:
    model = WordForWord(" ".join(sentence), {})
    terms = [Term(source, target) for source, target in glossary.items()]
    words = honoured(model, terms).split()
    wanted = [glossary[word] for word in sentence if word in glossary]
    assert all(words.count(target) >= wanted.count(target) for target in wanted)


def test_terms_are_found_in_scripts_without_blanks() -> None:
    assert [
        each.span for each in TermIndex([Term("自行车", "bike")]).occurrences_in("我的自行车很好")
    ] == [(2, 5)]
    assert [
        each.span for each in TermIndex([Term("iPhone", "phone")]).occurrences_in("我的iPhone手机")
    ] == [(2, 8)]


def test_term_inside_a_longer_term_does_not_count_as_present() -> None:
    said = TermIndex([Term("Rad", "bike"), Term("Rot", "red bike")]).occurrences_in(
        "ein Rad und Rot"
    )
    assert found_in("a red bike", said) == [None, (2, 10)]


def test_letters_joined_to_a_forced_term_are_not_in_the_next_prefix() -> None:
    class Sticky(WordForWord):
        async def go_on(self, prefix: str) -> str:
            self.forced.append(prefix)
            rest = self.words[len(prefix.split()) :]
            return " ".join([f"{prefix}ner", *rest])

    model = Sticky("Hund und Katze", {"Hund": "dog", "und": "and", "Katze": "cat"})
    honoured(model, [Term("Hund", "hound"), Term("Katze", "kitty")])
    assert model.forced == ["hound", "hound and kitty"]


def test_term_beyond_the_length_limit_is_not_forced() -> None:
    class Full(WordForWord):
        async def go_on(self, prefix: str) -> None:
            return None

    model = Full("ein Hund", {"ein": "a", "Hund": "dog"})
    assert honoured(model, [Term("Hund", "hound")]) == "a dog"


def test_term_starts_at_a_word_boundary() -> None:
    assert [each.span for each in TermIndex([Term("a a", "b")]).occurrences_in("xa a a")] == [
        (3, 6)
    ]


def test_terms_are_forced_a_bounded_number_of_times() -> None:
    source = [f"w{number}" for number in range(3 * MOST_FORCED)]
    model = WordForWord(" ".join(source), {})
    honoured(model, [Term(word, word.upper()) for word in source])
    assert len(model.forced) == MOST_FORCED
