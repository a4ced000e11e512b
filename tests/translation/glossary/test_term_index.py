from __future__ import annotations

import re
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.text import visible
from service.text.alignment import Span
from service.text.glossary.term_index import TermIndex, TermIndexes, joined
from service.text.types import Term


def plain_occurrences(sentence: str, terms: Sequence[Term]) -> list[tuple[str, Span]]:
    """Plain twin of ``TermIndex.occurrences_in``: one regular expression for every term."""
    found: list[tuple[str, Span]] = []
    for term in sorted(terms, key=lambda term: -len(term.source)):
        spans = whole_words(term.source, sentence)
        spans = spans or whole_words(term.source, sentence, re.IGNORECASE)
        for start, end in spans:
            if all(end <= first or last <= start for _, (first, last) in found):
                found.append((term.target, (start, end)))
    return sorted(found, key=lambda entry: entry[1])


def whole_words(word: str, text: str, flags: int = 0) -> list[Span]:
    starts = [match.start() for match in re.finditer(f"(?={re.escape(word)})", text, flags)]
    spans = [(start, start + len(word)) for start in starts]
    return [span for span in spans if not any(joined(text, border) for border in span)]


LETTERS = st.text(st.sampled_from("aAbB ßẞΣσς.-我的"), min_size=1, max_size=5)
WORDS = st.lists(st.sampled_from(["a", "A", "ab", "Ab", "b", " ", "-"]), min_size=1).map("".join)
SOURCES = (LETTERS | WORDS).map(visible).filter(bool)
SENTENCES = (st.text(st.sampled_from("aAbB ßẞΣσς.-我的"), max_size=20) | WORDS).map(visible)


@example("ẞ", ["ß"])
@given(SENTENCES, st.lists(SOURCES))
def test_the_same_terms_are_found_as_by_one_expression_for_each(
    sentence: str, sources: list[str]
) -> None:
    terms = [Term(source, str(number)) for number, source in enumerate(dict.fromkeys(sources))]
    index = TermIndex(terms)
    found = [(each.term.target, each.span) for each in index.occurrences_in(sentence)]
    assert found == plain_occurrences(sentence, terms)
    assert index.occur_in(sentence) == bool(found)


@pytest.mark.parametrize(
    ("sentence", "source", "found"),
    [
        ("der Hu\u00adnd", "Hund", "Hu\u00adnd"),
        ("im tiefen\u00a0Schnee", "tiefen Schnee", "tiefen\u00a0Schnee"),
        ("nach \u00a7 5 und", "\u00a7\u00a05", "\u00a7 5"),
        ("eine Ku\u0308che", "K\u00fcche", "Ku\u0308che"),
        ("eine K\u00fcche", "Ku\u0308che", "K\u00fcche"),
        ("ein  HUND\u200b da", "hund", "HUND\u200b"),
    ],
)
def test_invisible_characters_hide_no_term(sentence: str, source: str, found: str) -> None:
    index = TermIndex([Term(source, "x")])
    assert [sentence[slice(*each.span)] for each in index.occurrences_in(sentence)] == [found]
    assert index.occur_in(sentence)


@pytest.mark.parametrize(
    ("sentence", "sources", "found"),
    [
        pytest.param("Hund, Hunde und Kettenhund", ["Hund"], ["Hund"], id="whole words only"),
        pytest.param("xa a a", ["a a"], ["a a"], id="from a word boundary"),
        pytest.param("ein alter Hund", ["Hund", "alter Hund"], ["alter Hund"], id="the longest"),
        pytest.param("Rot und rot", ["rot"], ["rot"], id="its own case"),
        pytest.param("Rot und blau", ["rot"], ["Rot"], id="any case"),
        pytest.param("我的自行车很好", ["自行车"], ["自行车"], id="without blanks"),
        pytest.param("我的iPhone手机", ["iPhone"], ["iPhone"], id="between scripts"),
    ],
)
def test_terms_are_found_in_a_sentence(sentence: str, sources: list[str], found: list[str]) -> None:
    index = TermIndex([Term(source, "x") for source in sources])
    assert [sentence[slice(*each.span)] for each in index.occurrences_in(sentence)] == found


def test_sharp_s_is_found_in_either_case() -> None:
    index = TermIndex([Term("Straße", "street")])
    assert [each.span for each in index.occurrences_in("DIE STRAẞE")] == [(4, 10)]


def test_an_index_is_built_once_for_the_same_terms() -> None:
    indexes = TermIndexes()
    terms = (Term("Hund", "dog"),)
    assert indexes.of(terms) is indexes.of(terms)
    read_again = tuple(Term(term.source, term.target) for term in terms)
    assert indexes.of(terms) is indexes.of(read_again)
    assert indexes.of(terms) is not indexes.of((Term("Katze", "cat"),))


def test_terms_of_the_last_request_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    indexes, terms = TermIndexes(), (Term("Tor", "goal"),)
    index = indexes.of(terms)
    monkeypatch.setattr(Term, "__hash__", None)
    assert indexes.of(terms) is index
    assert not indexes.of(()).occur_in("Tor")


def test_memory_of_kept_indexes_stays_below_the_limit() -> None:
    limit = 4 << 20
    indexes = TermIndexes(limit)
    tracemalloc.start()
    try:
        for glossary in range(12):
            # The kind of string that takes most memory for a character.
            source = f"{glossary}\N{GRINNING FACE}" * 20
            indexes.of(tuple(Term(f"{source}{n}", f"{n}{source}") for n in range(500)))
            indexes.of(tuple(Term(f"{glossary}x{n}", f"{n}") for n in range(500)))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert limit / 8 < taken < limit
