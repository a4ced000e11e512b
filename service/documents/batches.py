"""How texts of a document travel: in batches, none of which takes long to read.

What reads documents of strangers is not trusted, so nothing but checked JSON comes back from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from service.documents.types import MarkedSource
from service.translation.markup import Markup

TEXTS = 64
CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts of one markup, in order."""

    markup: Markup
    texts: tuple[str, ...]


_BATCH = TypeAdapter(Batch)
_TRANSLATIONS = TypeAdapter(tuple[str, ...])


def write_batch(batch: Batch) -> bytes:
    return _BATCH.dump_json(batch)


def read_batch(content: bytes) -> Batch:
    """Raises ``ValueError`` for what ``write_batch`` never writes."""
    return _BATCH.validate_json(content)


def write_translations(translations: Sequence[str]) -> bytes:
    return _TRANSLATIONS.dump_json(tuple(translations))


def read_translations(content: bytes) -> tuple[str, ...]:
    return _TRANSLATIONS.validate_json(content)


def numbers_of_batches(
    texts: Sequence[MarkedSource], most_texts: int = TEXTS, most_characters: int = CHARACTERS
) -> Iterator[list[int]]:
    """Numbers of texts, grouped by markup; texts of a group stay in order.

    At most ``most_texts`` together and, unless one text alone has more, ``most_characters``
    characters: a large document takes a small part of the queue at a time.
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
