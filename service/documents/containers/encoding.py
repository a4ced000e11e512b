"""Decodes and encodes text files: by byte order mark, declared encoding, UTF-8, or a guess.

A file in no Unicode encoding has the one that is usual for its language, as in browsers. If the
language is not known, ``charset-normalizer`` guesses.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

import charset_normalizer

from service.documents.types import BrokenDocument

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose little-endian mark is a prefix of this one.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_LATIN = "cp1252"
_LATIN_CANDIDATES = ("cp1252", "cp1250", "cp1254")
_OTHER_CANDIDATES = (
    *("cp1251", "cp1253", "cp1255", "cp1256", "koi8_r", "cp932", "euc_jp", "gb18030", "big5"),
    "euc_kr",
)
_OF_LANGUAGES = (
    ("cp1250", "pl cs sk hu sl hr bs ro sq"),
    ("cp1251", "ru uk bg be sr mk"),
    ("cp1253", "el"),
    ("cp1254", "tr az"),
    ("cp1255", "he"),
    ("cp1256", "ar fa ur"),
    ("cp1257", "et lv lt"),
    ("cp1258", "vi"),
    ("cp874", "th"),
    ("cp932", "ja"),
    ("cp949", "ko"),
    ("gb18030", "zh"),
)
"""Encodings that were usual before Unicode, with the languages written in them."""
_GUESSED_FROM = 100_000
"""Bytes from which an encoding is guessed."""
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
        """Encode another text with the same encoding and byte order mark.

        A text with characters that the encoding lacks becomes UTF-8 with a byte order mark.
        """
        try:
            return self.mark + text.encode(self.encoding, errors)
        except UnicodeEncodeError:
            return codecs.BOM_UTF8 + text.encode()


def decode(content: bytes, language: str = "", declared: str = "") -> EncodedText:
    """Decode the content of a file in a language, which may be unknown.

    Raises ``BrokenDocument`` if the bytes are not valid text, and ``LookupError`` if the declared
    encoding is unknown.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _MARKS if content.startswith(mark)),
        (b"", _utf_16_without_mark(content) or declared),
    )
    text, encoding = _decoded(content[len(mark) :], encoding, language, len(mark))
    if "\0" in text:
        position = text.index("\0")
        raise BrokenDocument(
            f"character {position} is a null character: this is no text; save it as UTF-8"
        )
    return EncodedText(text, encoding, mark)


def _decoded(content: bytes, encoding: str, language: str, offset: int) -> tuple[str, str]:
    """The text and its encoding, which is guessed if none is given."""
    try:
        return content.decode(encoding or "utf-8"), encoding or "utf-8"
    except UnicodeDecodeError as error:
        guess = "" if encoding else _guessed(content, language)
        if guess:
            return content.decode(guess), guess
        advice = "" if offset else "; save it as UTF-8, or as UTF-16 with a byte order mark"
        raise BrokenDocument(
            f"byte {offset + error.start} is not {(encoding or 'utf-8').upper()} text{advice}"
        ) from error


def _guessed(content: bytes, language: str) -> str:
    """An encoding that can decode the content, or an empty string."""
    if language:
        usual = next((name for name, codes in _OF_LANGUAGES if language in codes.split()), _LATIN)
        return usual if _can_decode(content, usual) else ""
    # Few letters of Latin scripts are not ASCII, and charset-normalizer takes them for Chinese.
    sample = content[:_GUESSED_FROM]
    foreign = sum(byte >= 0x80 for byte in sample)
    ascii_letters = sum(map(str.isalpha, sample.decode("ascii", "ignore")))
    candidates = _LATIN_CANDIDATES if foreign < ascii_letters else _OTHER_CANDIDATES
    matches = list(charset_normalizer.from_bytes(sample, cp_isolation=list(candidates)))
    names = [match.encoding for match in matches]
    # The encoding of Western Europe is the most frequent of equally likely ones.
    for match in matches:
        equal = (match.chaos, match.coherence) == (matches[0].chaos, matches[0].coherence)
        if equal and _LATIN in match.could_be_from_charset:
            names.insert(0, _LATIN)
    return next((name for name in names if _can_decode(content, name)), "")


def _can_decode(content: bytes, encoding: str) -> bool:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return not any("\x00" <= c < "\t" or "\x7f" <= c < "\xa0" for c in set(text))


def _utf_16_without_mark(content: bytes) -> str | None:
    sample = content[: 2 * _LOOKED_AT]
    low_zeros, high_zeros = sample[::2].count(0), sample[1::2].count(0)
    if high_zeros > len(sample) // 4 and high_zeros > 4 * low_zeros:
        return "utf-16-le"
    if low_zeros > len(sample) // 4 and low_zeros > 4 * high_zeros:
        return "utf-16-be"
    return None
