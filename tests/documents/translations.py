"""Predictable translations for tests: change every text, keep its markup."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from service.documents import DocumentReader, open_document
from service.documents.reading.worker import answer
from service.documents.types import Document, Languages, MarkedSource
from service.text.alignment import Alignment
from service.text.markup import Markup, parse
from tests.support.weaving import woven

ENGLISH_TO_GERMAN = Languages("en", "de")
_TAG = re.compile(r"(<[^<>]*>|&[#\w]+;)")
_SENTENCE = re.compile(r"\S(?:[^.!?]*[^.!?\s])?[.!?]*")


def mapped(source: MarkedSource, change: Callable[[str], str]) -> str:
    """Apply ``change`` to the text of a source, with tags kept in place."""
    if source.markup.kind == "text":
        return change(source.text)
    parts = _TAG.split(source.text)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def translated(document: Document, change: Callable[[str], str]) -> bytes:
    return document.replaced([mapped(source, change) for source in document.texts])


def shouted(document: Document) -> bytes:
    return translated(document, str.upper)


def unchanged(document: Document) -> bytes:
    return document.replaced([source.text for source in document.texts])


async def shout(texts: tuple[str, ...], markup: Markup) -> list[str]:
    return [mapped(MarkedSource(text, markup), str.upper) for text in texts]


def said(name: str, content: bytes, languages: Languages = ENGLISH_TO_GERMAN) -> list[str]:
    """The texts that are found in a document."""
    return [source.text for source in open_document(name, content, languages).texts]


def _backwards(sentence: str) -> tuple[str, Alignment]:
    target = " ".join(sentence.split()[::-1])
    source_spans, target_spans = (
        tuple(found.span() for found in re.finditer(r"\S+", text)) for text in (sentence, target)
    )
    weights_TS = np.eye(len(source_spans), dtype=np.float32)[::-1]
    return target, Alignment(source_spans, target_spans, weights_TS)


def reversed_words(document: Document) -> bytes:
    """Translate by reversing the words of each sentence; markup follows the word alignment."""

    def reverse(source: MarkedSource) -> str:
        text, runs = parse(source.text, source.markup), []
        for run in text.runs:
            cut = run.cut([found.span() for found in _SENTENCE.finditer(run.text)])
            sentences = [each.render(*_backwards(each.text)) for each in cut.sentences]
            runs.append(woven(cut.separators, sentences))
        return woven(text.between, runs)

    return document.replaced(list(map(reverse, document.texts)))


class ReaderHere(DocumentReader):
    """Reads documents in the test process, without helpers."""

    async def _ask(self, caller: str | None, *parts: bytes) -> list[bytes]:
        return answer(parts)
