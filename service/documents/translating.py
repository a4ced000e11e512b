"""Translates a document batch by batch with a function for lists of texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from service.documents.batches import read_batch, write_translations
from service.documents.reading.reader import DocumentReader, ReadDocument
from service.documents.types import DocumentFailed
from service.text.markup import Markup

Translate = Callable[[tuple[str, ...], Markup], Awaitable[list[str]]]
"""Translates texts with one markup; returns one translation for each, in order."""


async def translate_document(
    reader: DocumentReader, document: ReadDocument, translate: Translate
) -> bytes:
    """Translate all texts of a document, and return the translated file.

    Batches go one after another. Exceptions of ``translate`` and ``reader.write`` propagate.
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
        # Batches whose results are kept wait for nothing.
        await asyncio.sleep(0)
    return await reader.write(document, translated)
