"""Translates documents through ``service.text.markup`` with toy translators."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import MarkedSource, open_document
from service.documents.types import Document
from service.text.alignment import Alignment, Span
from service.text.markup import parse
from tests.documents.test_docx import report
from tests.documents.test_markdown import BITS, GUIDE, structure
from tests.documents.test_srt import FILM
from tests.documents.word import entries
from tests.support.weaving import woven

Translator = Callable[[str], tuple[str, Alignment]]
_SENTENCE = re.compile(r"\S(?:[^.!?]*[^.!?\s])?[.!?]*")


def words_of(text: str) -> tuple[Span, ...]:
    return tuple(found.span() for found in re.finditer(r"\S+", text))


def shouting(sentence: str) -> tuple[str, Alignment]:
    words = words_of(sentence)
    return sentence.upper(), Alignment(words, words, np.eye(len(words), dtype=np.float32))


def backwards(sentence: str) -> tuple[str, Alignment]:
    target = " ".join(sentence.split()[::-1])
    words = words_of(sentence)
    weights_TS = np.eye(len(words), dtype=np.float32)[::-1]
    return target, Alignment(words, words_of(target), weights_TS)


def marked(source: MarkedSource, translator: Translator) -> str:
    text = parse(source.text, source.markup)
    runs = []
    for run in text.runs:
        spans = [found.span() for found in _SENTENCE.finditer(run.text)]
        cut = run.cut(spans)
        sentences = [s.render(*translator(s.text)) for s in cut.sentences]
        runs.append(woven(cut.separators, sentences))
    return woven(text.between, runs)


def translated(document: Document, translator: Translator) -> bytes:
    return document.replaced([marked(source, translator) for source in document.texts])


def shouted(name: str, content: bytes) -> str:
    return translated(open_document(name, content), shouting).decode()


def test_plain_text() -> None:
    assert shouted("a.txt", b" One. \r\n\r\nTwo?\n") == " ONE. \r\n\r\nTWO?\n"


def test_captions() -> None:
    assert shouted("a.srt", FILM.encode()) == re.sub(
        r"(?<![\\<{/\d:])\b[a-z]+\b(?!>)", lambda word: word[0].upper(), FILM
    ).replace("We", "WE").replace("Where", "WHERE").replace("Here", "HERE").replace("Rock", "ROCK")


def test_web_pages() -> None:
    page = '<p class="a">One <b>two</b> &amp; three.</p><script>let a</script><p>Four'
    assert shouted("a.html", page.encode()) == (
        '<p class="a">ONE <b>TWO</b> &amp; THREE.</p><script>let a</script><p>FOUR'
    )


def test_markdown() -> None:
    written = shouted("a.md", GUIDE.encode())
    assert structure(written) == structure(GUIDE)
    assert 'AND A [LINK TEXT](http://a.example/b_c "title")' in written
    assert 'print("untouched")' in written


def test_documents_of_word() -> None:
    document = open_document("a.docx", report())
    written = translated(document, shouting)
    again = [source.text for source in open_document("a.docx", written).texts]
    assert 'THIS IS <g id="1">VERY BOLD</g> AND PLAIN.' in again
    assert again == [marked(source, shouting) for source in document.texts]
    assert entries(written).keys() == entries(report()).keys()


@settings(max_examples=100, deadline=None)
@given(BITS)
def test_reordering_words_loses_no_markdown_tag(text: str) -> None:
    translated(open_document("a.md", text.encode()), backwards)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a b", " ", "<i>", "</i>", "<b>", "</b>", "{\\an8}", ". ", "&"])))
def test_reordering_words_loses_no_caption_tag(said: list[str]) -> None:
    caption = "1\n0:00:01,0 --> 0:00:02,0\n" + "".join(said) + "\n"
    written = translated(open_document("a.srt", caption.encode()), backwards).decode()
    assert sorted(re.findall(r"<[^>]*>|\{[^}]*\}", written)) == sorted(
        re.findall(r"<[^>]*>|\{[^}]*\}", caption)
    )
