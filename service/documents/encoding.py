"""Bytes to text and back; encodings are named or marked, never guessed, and marks are kept."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from service.documents.types import BrokenDocument

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose little-endian mark is how this one begins.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text, and how it was written as bytes."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark that it began with."""

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Another text, written in the same way."""
        return self.mark + text.encode(self.encoding, errors)


def decode(content: bytes, encoding: str = "utf-8") -> EncodedText:
    """Read a text by its byte order mark, and in ``encoding`` if it has none.

    Raises ``BrokenDocument`` where the bytes are no text.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _MARKS if content.startswith(mark)), (b"", encoding)
    )
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        advice = "" if mark else "; save it as UTF-8, or as UTF-16 with a byte order mark"
        raise BrokenDocument(
            f"byte {len(mark) + error.start} is not {encoding.upper()} text{advice}"
        ) from error
    if "\0" in text:
        position = text.index("\0")
        raise BrokenDocument(
            f"character {position} is a null character: this is UTF-16 without a byte order mark, "
            "or no text at all; save it as UTF-8"
        )
    return EncodedText(text, encoding, mark)
