"""Document worker in a helper process: extracts texts of a file, or writes the translated file.

It is stateless: writing reads the file again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from pydantic import NonNegativeInt, TypeAdapter

from service.documents.batches import Batch, numbers_of_batches, read_translations, write_batch
from service.documents.opening import open_document
from service.documents.types import (
    BrokenDocument,
    Document,
    Languages,
    MarkedSource,
    MarkupLost,
    characters,
)
from service.text.markup import parse

READ, WRITE = b"read", b"write"
DONE, BROKEN, LOST = b"done", b"broken", b"lost"

MOST_BYTES_OF_TEXTS = 32 << 20
"""Limit of a document's serialised texts, which the server holds until all are translated."""
_MOST_CHARACTERS_OF_TEXT = 100_000
"""Limit of one text without its markup: a paragraph, a caption, a block of HTML."""
_MOST_CHARACTERS_WITH_MARKUP = 4 << 20
"""Limit of one text with its markup, which may have pictures and programs in it."""
_MOST_TEXTS = 100_000
"""Paragraphs, cells, captions or units."""
_TEXTS_FOR_DETECTION = 100
_CHARACTERS_FOR_DETECTION = 20_000


@dataclass(frozen=True, slots=True)
class Outline:
    """Metadata of a document."""

    media_type: Literal[
        "text/plain",
        "text/html",
        "text/markdown",
        "text/csv",
        "text/vtt",
        "text/x-apple-strings",
        "text/x-fluent",
        "text/x-gettext-translation",
        "text/x-java-properties",
        "application/epub+zip",
        "application/json",
        "application/pdf",
        "application/rtf",
        "application/vnd.oasis.opendocument.presentation",
        "application/vnd.oasis.opendocument.spreadsheet",
        "application/vnd.oasis.opendocument.text",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/x-subrip",
        "application/x-tmx+xml",
        "application/xliff+xml",
        "application/xml",
        "application/yaml",
    ]
    characters: NonNegativeInt
    """Characters to translate, without markup."""
    length: NonNegativeInt
    """Characters of all texts with their markup."""
    sample: str = field(repr=False)
    """Beginning of the text without markup, enough for language detection."""


OUTLINE: TypeAdapter[Outline] = TypeAdapter(Outline)
LANGUAGES: TypeAdapter[Languages] = TypeAdapter(Languages)


def answer(parts: Sequence[bytes]) -> list[bytes]:
    """Handle one message of the helper process.

    ``READ``, name, languages and file give ``DONE``, an outline and batches of texts. ``WRITE``,
    name, languages, file and translated batches give ``DONE`` and a file. Failures give ``BROKEN``
    with a reason, or ``LOST``.
    """
    what, name, languages, content, *translated = parts
    try:
        document = open_document(name.decode(), content, LANGUAGES.validate_json(languages))
        return _read(document) if what == READ else [DONE, _write(document, translated)]
    except BrokenDocument as error:
        return [BROKEN, str(error).encode()]
    except MarkupLost:
        return [LOST]


def _read(document: Document) -> list[bytes]:
    texts = document.texts
    if len(texts) > _MOST_TEXTS:
        raise BrokenDocument(
            f"the document has {len(texts)} paragraphs; at most {_MOST_TEXTS} are read: send it in "
            "parts"
        )
    for text in texts:
        for what, length, most in (
            ("characters", text.characters, _MOST_CHARACTERS_OF_TEXT),
            ("characters with its markup", len(text.text), _MOST_CHARACTERS_WITH_MARKUP),
        ):
            if length > most:
                raise BrokenDocument(
                    f"a paragraph or block of the document has {length} {what}; at most {most} "
                    "are read: divide it"
                )
    batches: list[bytes] = []
    size = 0
    for numbers in numbers_of_batches(texts):
        markup = texts[numbers[0]].markup
        batches.append(write_batch(Batch(markup, tuple(texts[n].text for n in numbers))))
        size += len(batches[-1])
        if size > MOST_BYTES_OF_TEXTS:
            raise BrokenDocument(
                f"the document has more than {MOST_BYTES_OF_TEXTS >> 20} MB of text, the limit; "
                "split it"
            )
    outline = Outline(
        document.media_type,  # type: ignore[arg-type]
        characters(document),
        sum(len(text.text) for text in texts),
        _sample(texts),
    )
    return [DONE, OUTLINE.dump_json(outline), *batches]


def _sample(texts: Sequence[MarkedSource]) -> str:
    """The first texts joined, because one text is often too short for language detection."""
    sample: list[str] = []
    left = _CHARACTERS_FOR_DETECTION
    for text in islice(texts, _TEXTS_FOR_DETECTION):
        if left <= 0:
            break
        sample += [run.text for run in parse(text.text, text.markup).runs]
        left -= len(text.text)
    return "\n".join(sample)[:_CHARACTERS_FOR_DETECTION]


def _write(document: Document, translated: Sequence[bytes]) -> bytes:
    texts = document.texts
    translations = [""] * len(texts)
    for numbers, content in zip(numbers_of_batches(texts), translated, strict=True):
        for number, translation in zip(numbers, read_translations(content), strict=True):
            translations[number] = translation
    return document.replaced(translations)
