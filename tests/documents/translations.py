"""Predictable translations for tests: change every text, keep its markup."""

from __future__ import annotations

import re
from collections.abc import Callable

from service.documents import open_document
from service.documents.types import Document, Languages, MarkedSource
from service.text.markup import Markup

ENGLISH_TO_GERMAN = Languages("en", "de")
_TAG = re.compile(r"(<[^<>]*>|&[#\w]+;)")


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
