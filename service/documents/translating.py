"""A document through a function that translates lists of texts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from service.documents.types import Document, MarkedSource
from service.translation.markup import Markup

Translate = Callable[[tuple[str, ...], Markup], Awaitable[list[str]]]
"""Texts of one markup to as many translations, in their order."""


async def translate_document(
    document: Document,
    translate: Translate,
    *,
    texts_at_once: int = 64,
    characters_at_once: int = 16_000,
) -> bytes:
    """Have every text of a document translated, and give the file with the translations.

    Batches hold texts of one markup, at most ``texts_at_once`` of them and, unless one text alone
    has more, ``characters_at_once`` characters, and go one after the other: a large document
    takes a small part of the queue. What ``translate`` raises is raised.
    """
    texts = document.texts
    translations = [""] * len(texts)
    for batch in _batches(texts, texts_at_once, characters_at_once):
        markup = texts[batch[0]].markup
        answers = await translate(tuple(texts[number].text for number in batch), markup)
        for number, translation in zip(batch, answers, strict=True):
            translations[number] = translation
    # Zipping up a large document takes long enough for others to notice.
    return await asyncio.to_thread(document.replaced, translations)


def _batches(
    texts: Sequence[MarkedSource], most_texts: int, most_characters: int
) -> Iterator[list[int]]:
    """Numbers of texts, grouped by markup; texts of a group stay in order."""
    groups: dict[Markup, list[int]] = {}
    for number, text in enumerate(texts):
        groups.setdefault(text.markup, []).append(number)
    for numbers in groups.values():
        batch: list[int] = []
        size = 0
        for number in numbers:
            length = len(texts[number].text)
            if batch and (len(batch) == most_texts or size + length > most_characters):
                yield batch
                batch, size = [], 0
            batch.append(number)
            size += length
        yield batch
