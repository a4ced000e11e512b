"""Reads and writes HTML documents; ``service.text.markup`` parses the HTML itself.

A long page is split at ends of blocks, so that it is never translated as one text. Attributes with
text are translated once per value, and written into the translated page.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator, Sequence

from service.documents.containers.encoding import decode
from service.documents.containers.splicing import Place, SplicedDocument
from service.documents.types import (
    UNKNOWN,
    BrokenDocument,
    Document,
    Languages,
    MarkedSource,
)
from service.text.markup import Markup, html_tokens
from service.text.markup.tokens import gathered

_HTML = Markup("html")
_CHARACTERS = 8_000
"""Minimum length of a part, markup included, before it is split at the next end of a block."""

_PREFORMATTED = re.compile(r"<(?:pre|textarea)[\s/>]", re.IGNORECASE)
"""Elements that must not be split, because blanks are significant in them."""

_DECLARED = re.compile(
    rb"""<meta\b[^>]{0,500}?\bcharset\s*=\s*["']?\s*([\w:.-]+)"""
    rb"""|^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']([\w:.-]+)""",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 1024
"""Number of bytes in which browsers search for a charset."""
_AS_BROWSERS_DO = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gbk",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-8",
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
_ENCODINGS = frozenset(
    {
        *("utf-8", "cp866", "cp874", "cp932", "cp949", "cp1250", "cp1251", "cp1252", "cp1253"),
        *("cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "iso8859-2", "iso8859-3"),
        *("iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-10"),
        *("iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16", "koi8-r", "koi8-u"),
        *("mac-roman", "gbk", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp"),
    }
)


_ATTRIBUTES_WITH_TEXT = frozenset({"alt", "title", "placeholder", "aria-label"})
_DESCRIPTIONS = frozenset({"description", "og:title", "og:description"})
"""Names of ``<meta>`` whose ``content`` is text."""
_LANGUAGE = frozenset({"lang", "xml:lang"})
_NAME = re.compile(r"<([a-zA-Z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"""(?<=[\s"'])([^\s/>"'=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""")


def open_html(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Decode by the byte order mark, the ``<meta charset>``, UTF-8, or the usual encoding.

    Output has the same encoding; characters that it lacks become numeric references. Raises
    ``BrokenDocument``.
    """
    file = decode(content, languages.source, _declared(content))
    page = SplicedDocument(file, "text/html", list(_places(file.text)), "xmlcharrefreplace")
    return _Page(page, file.text, languages.target)


class _Page:
    """A page: the texts of its blocks, and then the values of its attributes."""

    def __init__(self, page: SplicedDocument, text: str, language: str) -> None:
        self._page = page
        self.media_type = page.media_type
        self._language = language
        self._stated: str | None = None
        """Language that the page names first."""
        values: dict[str, None] = {}
        for tag in _tags(text):
            name = _name_of(tag)
            for attribute in _ATTRIBUTE.finditer(tag):
                if name == "html" and attribute[1].lower() in _LANGUAGE and not self._stated:
                    self._stated = _value_of(attribute)
            values |= dict.fromkeys(map(_value_of, _attributes_with_text(tag)))
        self._values = tuple(value for value in values if any(map(str.isalpha, value)))
        self.texts = (*page.texts, *map(MarkedSource, self._values))

    def replaced(self, translations: Sequence[str]) -> bytes:
        blocks = len(self._page.texts)
        translated = dict(zip(self._values, translations[blocks:], strict=True))
        tags = list(_tokens(self._page.spliced(translations[:blocks])))
        return self._page.encoded(
            "".join(self._tag(raw, translated) if is_tag else raw for raw, is_tag in tags)
        )

    def _tag(self, tag: str, translated: dict[str, str]) -> str:
        changes = {
            found.span(2): translated[value]
            for found in _attributes_with_text(tag)
            if translated.get(value := _value_of(found), value) != value
        }
        if self._language and self._stated:
            changes |= {
                found.span(2): self._language
                for found in _ATTRIBUTE.finditer(tag)
                if found[1].lower() in _LANGUAGE and _value_of(found) == self._stated
            }
        for (start, end), value in sorted(changes.items(), reverse=True):
            tag = f'{tag[:start]}"{html.escape(value)}"{tag[end:]}'
        return tag


def _tags(text: str) -> Iterator[str]:
    return (raw for raw, is_tag in _tokens(text) if is_tag)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is a start tag that may change."""
    untouched = 0
    for token in html_tokens.read(text, _HTML):
        kept = bool(untouched or token.untouched)
        if token.kind == "open" and kept:
            untouched += 1
        elif token.kind == "close" and untouched:
            untouched -= 1
        yield token.raw, token.kind in ("open", "empty") and not kept


def _attributes_with_text(tag: str) -> Iterator[re.Match[str]]:
    found = list(_ATTRIBUTE.finditer(tag))
    if _name_of(tag) == "meta":
        values = {each[1].lower(): _value_of(each).lower() for each in found}
        if not _DESCRIPTIONS.isdisjoint((values.get("name", ""), values.get("property", ""))):
            yield from (each for each in found if each[1].lower() == "content")
        return
    yield from (each for each in found if each[1].lower() in _ATTRIBUTES_WITH_TEXT)


def _name_of(tag: str) -> str:
    found = _NAME.match(tag)
    return found[1].lower() if found else ""


def _value_of(attribute: re.Match[str]) -> str:
    raw = attribute[2]
    return html.unescape(raw[1:-1] if raw[0] in "\"'" else raw)


def _declared(content: bytes) -> str:
    found = _DECLARED.search(content[:_DECLARED_WITHIN])
    if found is None:
        return ""
    label = (found[1] or found[2]).decode("ascii", "replace")
    try:
        name = codecs.lookup(label).name
    except LookupError:
        name = label
    name = _AS_BROWSERS_DO.get(name, name)
    if name not in _ENCODINGS:
        raise BrokenDocument(f"the page says that its charset is {label[:40]}; save it as UTF-8")
    return name


def _places(text: str) -> Iterator[Place]:
    start = end = length = 0
    opened: list[bool] = []
    preformatted = 0
    for token in gathered(html_tokens.read(text, _HTML)):
        end += len(token.raw)
        if token.kind == "text" and not token.raw.isspace():
            length += len(html.unescape(token.raw))
        elif token.kind == "open":
            opened.append(_PREFORMATTED.match(token.raw) is not None)
            preformatted += opened[-1]
        elif token.kind == "close":
            preformatted -= opened.pop()
        if token.breaks and token.raw and not preformatted and end - start >= _CHARACTERS:
            yield from _place(text, start, end, length)
            start, length = end, 0
    yield from _place(text, start, end, length)


def _place(text: str, start: int, end: int, length: int) -> Iterator[Place]:
    if length:
        yield Place(start, end, MarkedSource(text[start:end], _HTML, length), str)
