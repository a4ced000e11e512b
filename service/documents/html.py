"""Reads and writes HTML documents; ``service.translation.markup`` parses the HTML itself.

A long page is split at ends of blocks, so that it is never translated as one text.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator

from service.documents.encoding import decode
from service.documents.splicing import Place, SplicedDocument
from service.documents.types import BrokenDocument, Document, MarkedSource
from service.translation.markup import Markup, html_tokens
from service.translation.markup.tokens import gathered

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


def open_html(content: bytes) -> Document:
    """Decode by the byte order mark, the ``<meta charset>``, or else UTF-8.

    Output has the same encoding; characters that it lacks become numeric references. Raises
    ``BrokenDocument``.
    """
    file = decode(content, _declared(content))
    return SplicedDocument(file, "text/html", list(_places(file.text)), "xmlcharrefreplace")


def _declared(content: bytes) -> str:
    found = _DECLARED.search(content[:_DECLARED_WITHIN])
    if found is None:
        return "utf-8"
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
    start = end = said = 0
    opened: list[bool] = []
    preformatted = 0
    for token in gathered(html_tokens.read(text, _HTML)):
        end += len(token.raw)
        if token.kind == "text" and not token.raw.isspace():
            said += len(html.unescape(token.raw))
        elif token.kind == "open":
            opened.append(_PREFORMATTED.match(token.raw) is not None)
            preformatted += opened[-1]
        elif token.kind == "close":
            preformatted -= opened.pop()
        if token.breaks and token.raw and not preformatted and end - start >= _CHARACTERS:
            yield from _place(text, start, end, said)
            start, said = end, 0
    yield from _place(text, start, end, said)


def _place(text: str, start: int, end: int, said: int) -> Iterator[Place]:
    if said:
        yield Place(start, end, MarkedSource(text[start:end], _HTML, said), str)
