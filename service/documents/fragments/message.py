"""Converts a message of a program to translatable texts, and their translations to a message.

Tags, line breaks and placeholders are pieces of a ``Fragment``. Placeholders that
``service.text.markup`` finds in any text, such as ``%s`` and ``{name}``, remain in the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from service.documents.fragments.fragment import Fragment, Piece
from service.documents.types import MarkedSource
from service.text.markup.placeholders import find

MARKUP = r"""
    (?P<code><(?P<kept>code|kbd|samp|var|script|style|xliff:g)(?=[\s>])[^<>]*>
      (?:(?!<(?P=kept)[\s>]).)*?</(?P=kept)\s*>)
  | (?P<comment><!--(?:(?!<!--).)*?-->)
  | </?(?P<name>[a-zA-Z0-9][\w:.-]*)(?:\s[^<>]*)?/?>
  | (?P<line>\r\n|[\r\n])
  | \$[a-zA-Z_@]\w*\$ | \$t\([^()\n]*\)           # $NAME$ of Chrome, $t(key) of i18next
  | @(?:\.\w+)?:[\w.]++ | (?<![^\s("'\[]):[a-zA-Z]\w*+(?!:)  # @:key of Vue, :name of Laravel
  | %(?:\d+\$)?\#@\w+@ | %arg(?!\w)               # %#@files@ and %arg of Apple
"""
"""Verbose pattern of markup in messages and of placeholders that occur only there; takes linear
time."""
_FLAGS = re.VERBOSE | re.DOTALL | re.IGNORECASE
_BREAKING = frozenset(
    {"blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr"}
    | {"li", "ol", "p", "table", "td", "th", "tr", "ul"}
)
_REFERENCE = re.compile(r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+\d*);")
_HTML = re.compile(rf"</?[a-zA-Z][\w:-]*(?:\s[^<>]*)?/?>|{_REFERENCE.pattern}")
_SIGNS = (
    ("&", "&amp;", rf"&(?={_REFERENCE.pattern[1:]})"),
    ("<", "&lt;", r"<(?=[a-zA-Z/!?])"),
    (">", "&gt;", r"(?!)"),
)
"""Signs, their references, and patterns of signs that would be read as markup."""
_IDENTIFIER = re.compile(
    r"(?=[!-~]{1,200}\Z)(?:[#$@/.\\].*|.*_.*|\w*\d\w*|.*\w\.\w.*|\w*[a-z][A-Z]\w*)", re.ASCII
)
"""One word that no prose has: ``button_ok``, ``#1a2b3c``, ``index.html``, ``C3PO``, ``iPhone``."""


SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, which JSON can write and no encoding can."""
_MARKUP = re.compile(MARKUP, _FLAGS)


class Message:
    """A value: its own text, and the texts of the alternatives in its arguments."""

    def __init__(
        self,
        value: str,
        pieces: Iterable[Piece],
        arguments: Mapping[str, Sequence[str | Message]],
        write: Callable[[str], str] = str,
    ) -> None:
        """``arguments`` has the parts of pieces with alternatives, by the text of the piece.

        ``write`` formats translated text.
        """
        self.value = value
        self._fragment = Fragment(pieces)
        self._arguments = arguments
        self._write = write
        own = self._fragment.source
        self._own = own if own is not None and has_words(own.text) else None
        self.texts: tuple[MarkedSource, ...] = () if self._own is None else (self._own,)
        for parts in arguments.values():
            for part in parts:
                self.texts += part.texts if isinstance(part, Message) else ()

    def replaced(self, translations: Sequence[str]) -> str:
        """The value with translated texts; raises ``MarkupLost``."""
        if [text.text for text in self.texts] == list(translations):
            return self.value
        remaining = iter(translations)
        fragment = self._fragment
        pieces = fragment.pieces if self._own is None else fragment.replaced(next(remaining))
        arguments = {
            raw: "".join(
                part.replaced(list(islice(remaining, len(part.texts))))
                if isinstance(part, Message)
                else part
                for part in parts
            )
            for raw, parts in self._arguments.items()
        }
        return "".join(
            self._write(piece.text)
            if piece.kind == "text"
            else arguments.get(piece.text, piece.text)
            for piece in pieces
        )


def has_words(text: str) -> bool:
    """Whether a text has letters beside placeholders, and is no identifier."""
    if _IDENTIFIER.match(text) or SURROGATE.search(text):
        return False
    end_of_last = 0
    for start, end in find(text):
        if any(map(str.isalpha, text[end_of_last:start])):
            return True
        end_of_last = end
    return any(map(str.isalpha, text[end_of_last:]))


def plain_message(value: str) -> Message:
    """A message without alternatives. With a tag or a reference, its text is HTML."""
    if not is_html(value):
        return Message(value, pieces_of(value), {})
    return Message(value, pieces_of(value, html.unescape), {}, partial(escaped, value))


def is_html(value: str) -> bool:
    """Whether a value has a tag or a character reference."""
    return _HTML.search(value) is not None


def escaped(value: str, text: str) -> str:
    """Text for a message instead of ``value``, whose author may write ``&``, ``<`` and ``>``.

    They become references where those of ``value`` are, or where they would be read as markup.
    """
    for sign, reference, marks in _SIGNS:
        text = re.sub(sign if reference in value else marks, reference, text)
    return text


def tag_piece(found: re.Match[str]) -> Piece:
    """The piece of a match of a pattern with ``MARKUP``."""
    raw = found[0]
    name = (found["name"] or "").lower()
    if found["line"] or name in _BREAKING:
        return Piece("break", raw)
    if found["comment"]:
        return Piece("mark", raw)
    if not name:
        return Piece("word", raw)
    if raw.endswith("/>"):
        return Piece("thing", raw)
    return Piece("close" if raw.startswith("</") else "open", raw, f"<{name}>")


def pieces_of(
    value: str,
    read: Callable[[str], str] = str,
    pattern: re.Pattern[str] = _MARKUP,
    piece: Callable[[re.Match[str]], Piece] = tag_piece,
) -> Iterator[Piece]:
    """The pieces of a value; ``read`` resolves the escapes of its text.

    ``pattern`` finds what is not text, and ``piece`` says what it is.
    """
    end_of_last = 0
    for found in pattern.finditer(value):
        yield Piece("text", read(value[end_of_last : found.start()]))
        yield piece(found)
        end_of_last = found.end()
    yield Piece("text", read(value[end_of_last:]))
