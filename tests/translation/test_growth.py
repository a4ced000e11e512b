"""Every function that reads the text of a stranger takes time in proportion to it.

Counts lines of Python rather than seconds, on texts that are hostile to simple implementations.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.text import numbers
from service.documents.formats.captions import open_srt
from service.documents.formats.html import open_html
from service.documents.formats.text import open_text
from service.documents.fragments.fragment import Fragment, Piece
from service.text.faithfulness import added_full_stop, is_verbatim
from service.text.glossary.term_index import TermIndex
from service.text.markup import Markup, parse
from service.text.markup.types import MalformedMarkup
from service.text.segmentation import TokenLimit, segment
from service.text.types import Term
from service.text.words import words
from tests.support.growth import grows_slowly

SIZE = 600
PATTERNS = [
    *("a ", "a", "Ab. ", "1. ", "a, ", "\u2039", "„", "'", '"', "(", "\u0301", "我", "\n", " \n"),
    *("<", "<b>", "<b></b>", "<b>x</b> ", "<b></i>", "</b>", "<!--", "<p>x", "<pre>", "<td>"),
    *('<a x="', "<i>a <b>b</b></i> ", "&", "&amp;", "{{", "{a}", "%s ", "http://", "a@b.c "),
]


def repeated(pattern: str, size: int) -> str:
    return (pattern * (size // len(pattern) + 1))[:size]


def parsed_xml(text: str) -> None:
    try:
        parse(text, Markup("xml"))
    except MalformedMarkup:
        parse(f"<a>{text.replace('<', '').replace('&', '')}</a>", Markup("xml"))


def rendered(text: str) -> None:
    """Places the marks of one sentence, whose words and tags are both many."""
    for run in parse(text, Markup("html")).runs:
        for sentence in run.cut([(0, len(run.text))]).sentences:
            sentence.render(sentence.text.upper(), None)


def fragment(text: str) -> None:
    pieces = [Piece("open" if c in "<{(" else "text", c, c) for c in text]
    pieces += [Piece("close", ">", "<")] * (len(text) // 3)
    opened = Fragment(pieces)
    if opened.source is not None:
        opened.replaced(opened.source.text)


GLOSSARY = [Term(source, "x") for source in ("a", "a a", "a a a a", "b", "Ab", "1", "s", "我我")]
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "parse text": parse,
    "parse HTML": lambda text: parse(text, Markup("html")),
    "parse XML": parsed_xml,
    "place marks": rendered,
    "segment": lambda text: segment(text, "de", TokenLimit(len, 100)),
    "segment unsplit": lambda text: segment(text, "de", TokenLimit(len, 100), "none"),
    "words": words,
    "verbatim": is_verbatim,
    "numbers": numbers,
    "full stop": lambda text: added_full_stop(text, f"{text}."),
    "terms": TermIndex(GLOSSARY).occurrences_in,
    "fragment": fragment,
    "text document": lambda text: open_text(text.encode()),
    "HTML document": lambda text: open_html(text.encode()),
    "captions": lambda text: open_srt(b"1\n00:00:01,000 --> 00:00:02,000\n" + text.encode()),
}
EXPECTED_ERRORS = ("SentenceTooLong", "TooMuchMarkup")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cost_grows_with_the_length_of_a_text(name: str) -> None:
    def call(pattern: str, size: int) -> None:
        try:
            FUNCTIONS[name](repeated(pattern, size))
        except Exception as error:
            if type(error).__name__ not in EXPECTED_ERRORS:
                raise

    fast = {p for p in PATTERNS if grows_slowly(lambda size, p=p: call(p, size), SIZE)}  # type: ignore[misc]
    assert set(PATTERNS) - fast == set()


def test_cost_of_terms_grows_with_their_number() -> None:
    def call(size: int) -> None:
        index = TermIndex([Term(f"wort {number}", "x") for number in range(size)])
        index.occurrences_in("ein wort 7 und Wort 8 " * 10)

    assert grows_slowly(call, SIZE)


def test_quadratic_function_is_found() -> None:
    def call(size: int) -> None:
        for _ in range(size):
            for _ in range(size):
                pass

    assert not grows_slowly(call, 50)
