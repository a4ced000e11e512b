"""A document through a function that translates lists of texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from service.documents.batches import read_batch, write_translations
from service.documents.reader import ReadDocument, Reader
from service.documents.types import DocumentFailed
from service.translation.markup import Markup

Translate = Callable[[tuple[str, ...], Markup], Awaitable[list[str]]]
"""Texts of one markup to as many translations, in their order."""


async def translate_document(reader: Reader, document: ReadDocument, translate: Translate) -> bytes:
    """Have every text of a document translated, and give the file with the translations.

    Batches go one after the other. What ``translate`` and ``reader.write`` raise is raised.
    """
    translated: list[bytes] = []
    for content in document.batches:
        try:
            batch = read_batch(content)
        except ValueError as error:
            raise DocumentFailed from error
        translations = await translate(batch.texts, batch.markup)
        if len(translations) != len(batch.texts):
            raise ValueError(f"{len(batch.texts)} texts have {len(translations)} translations")
        translated.append(write_translations(translations))
    return await reader.write(document, translated)
