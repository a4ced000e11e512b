"""Decodes and encodes text files by byte order mark or given encoding.

The only guess is UTF-16 without a mark, whose Latin letters have a zero in every second byte.
"""

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


_LOOKED_AT = 2_000
"""Characters from which UTF-16 without a mark is recognised."""


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
    """Decode by the byte order mark, else as UTF-16 if it looks so, else with ``encoding``.

    Raises ``BrokenDocument`` if the bytes are not valid text.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _MARKS if content.startswith(mark)),
        (b"", _utf_16_without_mark(content) or encoding),
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
            f"character {position} is a null character: this is no text; save it as UTF-8"
        )
    return EncodedText(text, encoding, mark)


def _utf_16_without_mark(content: bytes) -> str | None:
    sample = content[: 2 * _LOOKED_AT]
    low_zeros, high_zeros = sample[::2].count(0), sample[1::2].count(0)
    if high_zeros > len(sample) // 4 and high_zeros > 4 * low_zeros:
        return "utf-16-le"
    if low_zeros > len(sample) // 4 and low_zeros > 4 * high_zeros:
        return "utf-16-be"
    return None
