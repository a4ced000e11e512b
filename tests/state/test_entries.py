from __future__ import annotations

import csv

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.state.entries import EntriesFormat, parse, render, validate
from service.state.errors import InvalidGlossary
from service.text.types import LanguagePair, Term

PAIR = LanguagePair("de", "en")
TWO = [("Hund", "dog"), ("Katze", "cat")]

TERMS = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20
).filter(lambda text: text == text.strip())
ENTRIES = st.dictionaries(TERMS, TERMS, max_size=8).map(
    lambda entries: tuple(Term(source, target) for source, target in entries.items())
)


@given(ENTRIES, st.sampled_from(["tsv", "csv"]))
def test_rendered_entries_parse_to_the_same_terms(
    terms: tuple[Term, ...], entries_format: EntriesFormat
) -> None:
    # A byte order mark belongs to no term.
    assume(not (terms and terms[0].source.startswith("\ufeff")))
    text = "\n".join(render(terms, entries_format))
    assert parse(text, entries_format, PAIR) == terms
    assert validate(terms) == terms


@given(st.text(), st.sampled_from(["tsv", "csv"]))
def test_any_text_parses_or_is_refused_with_line_number(
    text: str, entries_format: EntriesFormat
) -> None:
    try:
        terms = parse(text, entries_format, PAIR)
    except InvalidGlossary as refusal:
        assert str(refusal).startswith("line ")
    else:
        assert validate(terms) == terms


@pytest.mark.parametrize(
    ("entries_format", "text", "terms"),
    [
        ("tsv", "Hund\tdog\nKatze\tcat", TWO),
        ("tsv", "\ufeffHund\tdog\r\n\r\nKatze\tcat\r\n", TWO),
        ("tsv", '"guter" Hund\tdog, good', [('"guter" Hund', "dog, good")]),
        ("tsv", "", []),
        ("csv", "Hund,dog\nKatze,cat", TWO),
        ("csv", "\ufeffHund,dog,de,en\r\n\r\nKatze,cat,DE,EN\r\n", TWO),
        ("csv", '"Hund, der","dog ""Rex"""', [("Hund, der", 'dog "Rex"')]),
    ],
)
def test_entries_of_both_formats_are_parsed(
    entries_format: EntriesFormat, text: str, terms: list[tuple[str, str]]
) -> None:
    assert parse(text, entries_format, PAIR) == tuple(Term(*term) for term in terms)


CONTROL = "term has a control character, a tab or a line end"


@pytest.mark.parametrize(
    ("text", "entries_format", "line", "problem"),
    [
        ("a\tb\nc", "tsv", 2, "has 0 tabs; write source, one tab, target"),
        ("a\tb\tc", "tsv", 1, "has 2 tabs; write source, one tab, target"),
        ("a\tb\n\na\tc", "tsv", 3, '"a" is in line 1 already'),
        ("\tb", "tsv", 1, "the source term is empty"),
        ("a\t", "tsv", 1, "the target term is empty"),
        ("a\tb ", "tsv", 1, 'the target term "b " has blanks around it'),
        ("\u3000a\tb", "tsv", 1, 'the source term "\u3000a" has blanks around it'),
        ("a\x85b\tb", "tsv", 1, f"the source {CONTROL}"),
        ("a\tb\u2028", "tsv", 1, f"the target {CONTROL}"),
        ("a\t\ud800", "tsv", 1, f"the target {CONTROL}"),
        ("ü" * 513 + "\tb", "tsv", 1, "the source term has more than 1024 bytes in UTF-8"),
        ("a,b,c", "csv", 1, "has 3 columns; write source and target, or source, target and the"),
        ("a,b,de,en\nc,d,en,de", "csv", 2, 'is from "en" to "de"; this dictionary is from de to'),
        ("a,b,12,en", "csv", 1, 'is from "12" to "en"; this dictionary is from de to en'),
        ('a,b\n"c', "csv", 2, "is not CSV: unexpected end of data"),
        ('"a\nb",c', "csv", 2, f"the source {CONTROL}"),
        ("a" * (csv.field_size_limit() + 1), "csv", 1, ""),
    ],
)
def test_invalid_entry_is_refused_with_line_number(
    text: str, entries_format: EntriesFormat, line: int, problem: str
) -> None:
    with pytest.raises(InvalidGlossary) as refusal:
        parse(text, entries_format, PAIR)
    assert str(refusal.value).startswith(f"line {line}: {problem}")


def test_validate_refuses_entries_by_number() -> None:
    for second in (Term("a", "c"), Term("c", "")):
        with pytest.raises(InvalidGlossary, match=r"^entry 2: "):
            validate([Term("a", "b"), second])
