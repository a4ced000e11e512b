"""Opens message catalogues of gettext (.po). Missing translations are written.

Existing translations, fuzzy and obsolete ones included, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import polib

from service.documents.containers.encoding import decode
from service.documents.fragments.lines import lines_of
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages, MarkedSource
from service.text.markup import PLAIN, Markup

_WIDTH = 78
_CHARSET = re.compile(rb"^\"Content-Type:[^\n]*?\bcharset=([\w.:-]+)", re.MULTILINE | re.IGNORECASE)
_HEADER_BYTES = 4096
_UTF_8 = "text/plain; charset=UTF-8"
_UNQUOTED = re.compile(r'(?:msg[^"#]*)?"(?:[^"\\]|\\.)*$')
"""A line with a string that does not end."""
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_HTML = Markup("html")
_SYNTAX = re.compile(r"\(line (\d+)\)")


def open_po(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a catalogue; raises ``BrokenDocument``."""
    stated = _CHARSET.search(content[:_HEADER_BYTES])
    # A template says CHARSET.
    declared = "" if stated is None or stated[1] == b"CHARSET" else stated[1].decode()
    try:
        text = decode(content, languages.source, declared).text
    except LookupError as error:
        raise BrokenDocument(f"the charset {declared[:40]} is unknown; use UTF-8") from error
    for number, (_, line) in enumerate(lines_of(text), start=1):
        # polib takes the last character of such a line for its quote.
        if _UNQUOTED.match(line):
            raise BrokenDocument(f"the file is no catalogue of gettext: line {number} is broken")
    return _Catalogue(content, text, languages.target)


class _Catalogue:
    """A catalogue. Its lines may be wrapped anew."""

    media_type = "text/x-gettext-translation"

    def __init__(self, content: bytes, text: str, language: str) -> None:
        self._content = content
        self._text = text
        self._language = language
        self.texts = tuple(MarkedSource(m, _markup_of(m)) for _, _, m in _missing(self._read()))

    def replaced(self, translations: Sequence[str]) -> bytes:
        file = self._read()
        for (entry, form, _), translation in zip(_missing(file), translations, strict=True):
            if form is None:
                entry.msgstr = translation
            else:
                entry.msgstr_plural[form] = translation
        if not self.texts:
            return self._content
        if "Content-Type" in file.metadata:
            file.metadata["Content-Type"] = _UTF_8
        if self._language and not file.metadata.get("Language", self._language):
            file.metadata["Language"] = self._language
        return str(file).encode()

    def _read(self) -> polib.POFile:
        try:
            # polib opens a file if the text is the path of one; no path begins with a line end.
            return polib.pofile("\n" + self._text, wrapwidth=_WIDTH)
        except OSError as error:
            line = _SYNTAX.search(str(error))
            where = f"line {int(line[1]) - 1}" if line else "it"
            raise BrokenDocument(
                f"the file is no catalogue of gettext: {where} is broken"
            ) from error
        except (ValueError, IndexError, KeyError) as error:
            raise BrokenDocument("the file is no catalogue of gettext") from error


def _missing(file: polib.POFile) -> Iterator[tuple[polib.POEntry, int | None, str]]:
    """Entries without translation, their plural forms and their messages.

    Form 0 is the singular, unless it is the only one.
    """
    for entry in file:
        if entry.obsolete or entry.fuzzy:
            continue
        if not entry.msgid_plural:
            if not entry.msgstr and _has_words(entry.msgid):
                yield entry, None, entry.msgid
            continue
        forms = sorted(entry.msgstr_plural)
        for form in forms:
            message = entry.msgid_plural if form or len(forms) == 1 else entry.msgid
            if not entry.msgstr_plural[form] and _has_words(message):
                yield entry, form, message


def _has_words(message: str) -> bool:
    return any(map(str.isalpha, message))


def _markup_of(message: str) -> Markup:
    return _HTML if _TAG.search(message) else PLAIN
