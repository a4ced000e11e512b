"""Batches of document texts, serialised as validated JSON between server and reader process.

The process that parses untrusted documents is not trusted, so its output is validated. Batches are
small, so that each is fast to parse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from service.documents.types import MarkedSource
from service.text.markup import Markup

TEXTS = 64
CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts with the same markup, in order."""

    markup: Markup
    texts: tuple[str, ...]


_BATCH = TypeAdapter(Batch)
_TRANSLATIONS = TypeAdapter(tuple[str, ...])


def write_batch(batch: Batch) -> bytes:
    return _BATCH.dump_json(batch)


def read_batch(content: bytes) -> Batch:
    """Parse a batch; raises ``ValueError`` for anything that ``write_batch`` cannot write."""
    return _BATCH.validate_json(content)


def write_translations(translations: Sequence[str]) -> bytes:
    return _TRANSLATIONS.dump_json(tuple(translations))


def read_translations(content: bytes) -> tuple[str, ...]:
    return _TRANSLATIONS.validate_json(content)


def numbers_of_batches(
    texts: Sequence[MarkedSource], most_texts: int = TEXTS, most_characters: int = CHARACTERS
) -> Iterator[list[int]]:
    """Batches as lists of text indices, grouped by markup, in order within a group.

    A batch has at most ``most_texts`` texts and ``most_characters`` characters; a longer text is
    a batch by itself. So a large document takes a small part of the queue at a time.
    """
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
