from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.translation.alignment import Alignment, Span
from service.translation.glossary import terms
from service.translation.glossary.terms import force_terms, found_in, occurrences_in
from service.translation.types import Term


def spans(text: str) -> tuple[Span, ...]:
    found, start = [], 0
    for word in text.split(" "):
        if word:
            found.append((start, start + len(word)))
        start += len(word) + 1
    return tuple(found)


class WordForWord:
    """Translates each word by a table and says which source word each comes from, in order."""

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
    said = occurrences_in(model.sentence, terms)
    return asyncio.run(force_terms(model.translation(), said, model.align, model.go_on, prefix))


def test_a_term_is_found_as_a_whole_word_only() -> None:
    said = occurrences_in("Hund, Hunde und Kettenhund", [Term("Hund", "hound")])
    assert [each.span for each in said] == [(0, 4)]


def test_the_longest_of_overlapping_terms_is_said() -> None:
    terms = [Term("Hund", "hound"), Term("alter Hund", "old hound")]
    assert [each.term.target for each in occurrences_in("ein alter Hund", terms)] == ["old hound"]


def test_case_counts_unless_nothing_is_said_in_the_same() -> None:
    assert len(occurrences_in("Rot und rot", [Term("rot", "red")])) == 1
    assert len(occurrences_in("Rot und blau", [Term("rot", "red")])) == 1


def test_what_a_translation_says_already_is_left_alone() -> None:
    model = WordForWord("ein Hund", {"ein": "a", "Hund": "hound"})
    assert honoured(model, [Term("Hund", "hound")]) == "a hound"
    assert model.forced == []


def test_a_missing_term_is_forced_where_it_belongs() -> None:
    model = WordForWord("ein Hund rennt", {"ein": "a", "Hund": "dog", "rennt": "runs"})
    assert honoured(model, [Term("Hund", "hound")]) == "a hound runs"


def test_every_occurrence_is_honoured() -> None:
    model = WordForWord("Hund und Hund", {"Hund": "dog", "und": "and"})
    assert honoured(model, [Term("Hund", "hound")]) == "hound and hound"


def test_a_term_that_was_said_is_not_lost_by_forcing_another_before_it() -> None:
    class Forgetful(WordForWord):
        async def go_on(self, prefix: str) -> str:
            whole = await super().go_on(prefix)
            return prefix + whole[len(prefix) :].replace("cat", "pet")

    model = Forgetful("Hund und Katze", {"Hund": "dog", "und": "and", "Katze": "cat"})
    assert honoured(model, [Term("Hund", "hound"), Term("Katze", "cat")]) == "hound and cat"


def test_a_prefix_stays_as_it_is() -> None:
    model = WordForWord("Hund rennt", {"Hund": "dog", "rennt": "runs"})
    assert honoured(model, [Term("Hund", "hound")], prefix="dog ").startswith("dog ")


WORDS = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(WORDS, min_size=1, max_size=8), st.dictionaries(WORDS, WORDS.map(str.upper)))
def test_every_term_is_said_as_often_as_in_the_source(
    sentence: list[str], glossary: dict[str, str]
) -> None:
    model = WordForWord(" ".join(sentence), {})
    terms = [Term(source, target) for source, target in glossary.items()]
    words = honoured(model, terms).split()
    wanted = [glossary[word] for word in sentence if word in glossary]
    assert all(words.count(target) >= wanted.count(target) for target in wanted)


def test_a_script_without_blanks_has_terms_too() -> None:
    assert [each.span for each in occurrences_in("我的自行车很好", [Term("自行车", "bike")])] == [
        (2, 5)
    ]
    assert [each.span for each in occurrences_in("我的iPhone手机", [Term("iPhone", "phone")])] == [
        (2, 8)
    ]


def test_a_term_is_not_said_by_another_that_it_is_a_part_of() -> None:
    said = occurrences_in("ein Rad und Rot", [Term("Rad", "bike"), Term("Rot", "red bike")])
    assert found_in("a red bike", said) == [None, (2, 10)]


def test_letters_stuck_to_a_forced_term_are_not_kept_for_the_next() -> None:
    class Sticky(WordForWord):
        async def go_on(self, prefix: str) -> str:
            self.forced.append(prefix)
            rest = self.words[len(prefix.split()) :]
            return " ".join([f"{prefix}ner", *rest])

    model = Sticky("Hund und Katze", {"Hund": "dog", "und": "and", "Katze": "cat"})
    honoured(model, [Term("Hund", "hound"), Term("Katze", "kitty")])
    assert model.forced == ["hound", "hound and kitty"]


def test_what_there_is_no_room_for_is_not_forced() -> None:
    class Full(WordForWord):
        async def go_on(self, prefix: str) -> None:
            return None

    model = Full("ein Hund", {"ein": "a", "Hund": "dog"})
    assert honoured(model, [Term("Hund", "hound")]) == "a dog"


def test_of_many_terms_only_those_near_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sought = []
    spans_of = terms._spans

    def spy(word: str, text: str, flags: int = 0) -> list[Span]:
        sought.append(word)
        return spans_of(word, text, flags)

    monkeypatch.setattr(terms, "_spans", spy)
    glossary = [Term("HUND", "hound"), *(Term(f"Wort {n}", "word") for n in range(20_000))]
    assert len(occurrences_in("ein Hund", glossary)) == 1
    assert set(sought) == {"HUND"}


def test_a_term_begins_where_a_word_does() -> None:
    assert [each.span for each in occurrences_in("xa a a", [Term("a a", "b")])] == [(3, 6)]
