"""Decodes and encodes text files by byte order mark or given encoding, without guessing."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from service.documents.types import BrokenDocument

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose little-endian mark is a prefix of this one.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A decoded text with its encoding."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    """Its byte order mark, or empty."""

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Encode another text with the same encoding and byte order mark."""
        return self.mark + text.encode(self.encoding, errors)


def decode(content: bytes, encoding: str = "utf-8") -> EncodedText:
    """Decode by the byte order mark, or with ``encoding`` if there is none.

    Raises ``BrokenDocument`` if the bytes are not valid text.
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
