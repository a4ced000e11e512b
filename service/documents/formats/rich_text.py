"""Reads and writes Rich Text Format (.rtf). Only the texts of paragraphs change.

Its characters are bytes, so the file is read as Latin-1, and offsets are those of bytes.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from service.documents.fragments.fragment import Kind
from service.documents.fragments.rich_paragraph import (
    Fonts,
    Formatting,
    Part,
    RichParagraph,
    changed,
    joined,
    trimmed,
)
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages, MarkedSource

_BYTES = r"(?:[^\\{}\r\n]++|\\'[0-9a-fA-F]{2}|\\[\\{}])"
_TOKEN = re.compile(
    rf"""(?P<text>{_BYTES}(?:[\r\n]*+{_BYTES})*+) | (?P<brace>[{{}}]) | [\r\n]++
    | \\(?P<word>[a-zA-Z]++)(?P<number>-?\d{{1,10}})?[ ]? | \\(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_FALLBACK = re.compile(r"[\r\n]*+(?:\\'[0-9a-fA-F]{2}|\\[\\{}~_-]|[^\\{}\r\n])")
_ESCAPE = re.compile(r"\\'(..)|\\(.)|[\r\n]", re.DOTALL)
_MOST_LEVELS = 100
_MOST_PARTS = 100_000
_LONGEST_NAME = 100

_ROLES = re.compile(
    r"""(?P<end>par|sect|(?:nest)?(?:cell|row)|[\r\n])
    | (?P<break>tab|line|softline|lbr|page|column)
    | (?P<thing>chpgn|chftn|chdate|chtime|sectnum)
    | (?P<flow>(?:header|footer)[lrf]?|footnote|shptxt)
    | (?P<kept>\*|fonttbl|colortbl|stylesheet|info|filetbl|listtable|listoverridetable|listtext
        |pntext|pict|nonshppict|object|shp|do|mmath|field|fldinst|fldrslt|nonesttables|upr|xe
        |tcn?|rxe|deleted)
    """,
    re.VERBOSE,
)
"""Control words by what they are. A *flow* has paragraphs of its own; ``shptxt`` is a text box.

Other destinations are *kept* as they are; ``deleted`` is text that a tracked revision removed.
"""
_THINGS = frozenset({"footnote", "pict", "shppict", "object", "mmath", "field"})
_CHARACTERS = MappingProxyType(
    {
        **{"emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018", "rquote": "\u2019"},
        **{"ldblquote": "\u201c", "rdblquote": "\u201d", "bullet": "\u2022", "~": "\xa0"},
        **{"emspace": "\u2003", "enspace": "\u2002", "_": "\u2011", "-": "", "\t": "\t"},
    }
)
"""Texts of control words and symbols. A translation has no optional hyphens."""
_CODE_PAGES = MappingProxyType(
    {
        **{"0": "1252", "77": "10000", "128": "932", "129": "949", "130": "1361", "134": "936"},
        **{"136": "950", "161": "1253", "162": "1254", "163": "1258", "177": "1255", "178": "1256"},
        **{"186": "1257", "204": "1251", "222": "874", "238": "1250", "255": "437"},
    }
)
"""Code pages by the number of a font's character set."""
_SYMBOLS = "2"
"""Character set of fonts without letters."""
_CODECS = MappingProxyType(
    {
        **{"1361": "johab", "10000": "mac_roman", "10007": "mac_cyrillic", "20127": "ascii"},
        **{"20866": "koi8_r", "28591": "latin-1", "54936": "gb18030"},
    }
)
"""Code pages whose codec is not ``cp`` and their number."""


def open_rtf(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file; ``BrokenDocument`` names the first byte that is not RTF."""
    text = content.decode("latin-1")
    return _RichText(text, _Reader(text).paragraphs())


class _RichText:
    """Document of paragraphs, which may be in others, such as a footnote in a sentence."""

    media_type = "application/rtf"

    def __init__(self, text: str, paragraphs: Sequence[tuple[RichParagraph, MarkedSource]]) -> None:
        self._text = text
        self._paragraphs = paragraphs
        self._starts = [paragraph.start for paragraph, _ in paragraphs]
        self.texts = tuple(source for _, source in paragraphs)

    def replaced(self, translations: Sequence[str]) -> bytes:
        def written(start: int, end: int) -> str:
            """The bytes after ``start`` until ``end``, with the paragraphs that begin in them."""
            parts: list[str] = []
            for number in range(*(bisect_right(self._starts, place) for place in (start, end))):
                paragraph, source = self._paragraphs[number]
                if paragraph.start > start and translations[number] != source.text:
                    parts.append(self._text[start : paragraph.start])
                    parts.append(paragraph.written(translations[number], written))
                    start = paragraph.end
            return joined([*parts, self._text[start:end]])

        return written(0, len(self._text)).encode("latin-1")


@dataclass(slots=True)
class _Flow:
    """Text of the body, a header, a footnote or a text box: the parts of its current paragraph."""

    end: int
    """End of the last part, or of the last paragraph."""
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    start: int
    flow: _Flow | None
    """Flow to which its text belongs; ``None`` if it has other content."""
    formatting: Formatting
    destination: str = ""
    result: tuple[int, Part] | None = None
    """Beginning of the result of a field, and its place among the parts of the paragraph."""
    end_of_result: int = 0


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._fonts = Fonts()
        self._groups: list[_Group] = []
        self._paragraphs: list[tuple[RichParagraph, MarkedSource]] = []

    def paragraphs(self) -> list[tuple[RichParagraph, MarkedSource]]:
        """All paragraphs in order; a footnote follows the paragraph that contains it."""
        if not self._text.startswith("{\\rtf"):
            raise BrokenDocument("byte 0 does not begin {\\rtf, as every .rtf does")
        position = 0
        while token := _TOKEN.match(self._text, position):
            position = self._read(token)
            if not self._groups:
                return sorted(self._paragraphs, key=lambda each: each[0].start)
        raise BrokenDocument(
            f"byte {position}: the file ends inside a group of level {len(self._groups)}; it is "
            "incomplete"
        )

    def _read(self, token: re.Match[str]) -> int:
        """Read a token; returns its end, with data that belongs to it."""
        start, end = token.span()
        if token["text"]:
            self._add_text(start, end, self._decoded(token["text"]))
        elif token["brace"] == "{":
            self._open(start)
        elif token["brace"]:
            self._close(end)
        elif word := token["word"] or token["symbol"]:
            return self._follow(word, token["number"] or "", start, end)
        return end

    def _follow(self, word: str, number: str, start: int, end: int) -> int:
        group = self._groups[-1]
        if group.destination == "*":
            group.destination = word
        role = _ROLES.fullmatch(word)
        if role and role["end"]:
            self._end_paragraph(group.flow, end)
        elif role and (role["break"] or role["thing"]):
            self._add(Part("break" if role["break"] else "thing", start, end, group.formatting))
        elif role and number != "0":
            self._begin(word, end, is_flow=bool(role["flow"]))
        elif word in _CHARACTERS:
            self._add_text(start, end, _CHARACTERS[word])
        elif word == "u" and number:
            return self._read_unit(int(number), start, end)
        elif word == "bin":
            end += max(0, int(number or 0))
            if end > len(self._text):
                raise BrokenDocument(f"byte {start}: \\bin{number} is longer than the file")
        elif word == "'":
            raise BrokenDocument(f"byte {start}: \\' is not followed by two hexadecimal digits")
        elif word == "deff":
            self._fonts.default = f"f{number}"
        elif word == "ansicpg" and number != "0":
            self._fonts.code_page = self._codec(number, start)
        elif group.destination == "fonttbl" and word == "fcharset":
            page = _CODE_PAGES.get(number)
            if page or number == _SYMBOLS:
                font = group.formatting.get("f", "f0")
                self._fonts.code_pages[font] = self._codec(page, start) if page else ""
        else:
            group.formatting = changed(group.formatting, word, number)
        return end

    def _codec(self, page: str, position: int) -> str:
        name = _CODECS.get(page, f"cp{page}")
        try:
            return codecs.lookup(name).name
        except LookupError as error:
            raise BrokenDocument(f"byte {position}: code page {page} is unknown") from error

    def _decoded(self, raw: str) -> str:
        def resolve(escape: re.Match[str]) -> str:
            return chr(int(escape[1], 16)) if escape[1] else escape[2] or ""

        group = self._groups[-1]
        if group.flow is None and group.destination != "fonttbl":
            return ""
        codec = self._fonts.code_page_of(group.formatting) or "latin-1"
        return _ESCAPE.sub(resolve, raw).encode("latin-1").decode(codec, "replace")

    def _read_unit(self, code: int, start: int, end: int) -> int:
        """Read a unit of UTF-16, and what programs without Unicode read instead."""
        if not -0x8000 <= code <= 0xFFFF:
            raise BrokenDocument(f"byte {start}: \\u{code} is not a number of 16 bits")
        for _ in range(int(self._groups[-1].formatting.get("uc", "")[2:] or 1)):
            fallback = _FALLBACK.match(self._text, end)
            if fallback is None:
                break
            end = fallback.end()
        self._add_text(start, end, chr(code & 0xFFFF))
        return end

    def _add_text(self, start: int, end: int, text: str) -> None:
        group = self._groups[-1]
        if group.destination == "fonttbl":
            font = group.formatting.get("f", "f0")
            self._fonts.names[font] = (self._fonts.names.get(font, "") + text)[:_LONGEST_NAME]
        elif self._fonts.code_page_of(group.formatting):
            self._add(Part("text", start, end, group.formatting, text))
        else:
            self._add(Part("thing", start, end, group.formatting))

    def _add(self, part: Part) -> None:
        """Add to the paragraph of the current group, if the group has text."""
        flow = self._groups[-1].flow
        if flow is None:
            return
        flow.parts.append(part)
        flow.end = part.end
        if len(flow.parts) + len(self._paragraphs) > _MOST_PARTS:
            raise BrokenDocument(
                f"byte {part.start}: more than {_MOST_PARTS} paragraphs, or texts and objects in "
                "one, which is the limit; send the document in parts"
            )

    def _open(self, start: int) -> None:
        if len(self._groups) == _MOST_LEVELS:
            raise BrokenDocument(
                f"byte {start}: groups are nested more than {_MOST_LEVELS} levels deep"
            )
        if self._groups:
            outer = self._groups[-1]
            destination = outer.destination if outer.destination == "fonttbl" else ""
            self._groups.append(_Group(start, outer.flow, outer.formatting, destination))
        else:
            self._groups.append(_Group(start, _Flow(start), {}))

    def _begin(self, destination: str, end: int, *, is_flow: bool) -> None:
        """Begin a destination, whose control word ends at ``end``, in the current group.

        The group becomes an object of the paragraph around it, unless it has parts already.
        """
        group, outer = self._groups[-1], self._groups[max(0, len(self._groups) - 2)]
        is_empty = group.flow is None or group.start >= group.flow.end
        group.destination = destination if is_empty else ""
        group.flow = _Flow(end) if is_flow else None
        if destination == "fldrslt" and outer.destination == "field" and outer.result is None:
            around = self._groups[-3]
            group.flow = around.flow
            if around.flow is not None:
                part = Part("open", outer.start, end, around.formatting, link=outer.start)
                outer.result = len(around.flow.parts), part
                self._add(part)

    def _close(self, end: int) -> None:
        group = self._groups.pop()
        outer = self._groups[-1] if self._groups else None
        if outer is None or (group.flow is not outer.flow and group.destination != "fldrslt"):
            self._end_paragraph(group.flow, end - 1)
        elif group.destination == "fldrslt":
            outer.end_of_result = end - 1
        if outer is not None and outer.flow is not None and group.destination:
            kind: Kind = "thing" if group.destination in _THINGS else "mark"
            self._close_field(outer.flow, group, Part(kind, group.start, end, outer.formatting))

    def _close_field(self, flow: _Flow, group: _Group, whole: Part) -> None:
        """Add a group as an object, or the end of the link that it is.

        A field over several paragraphs is neither; its end divides a paragraph.
        """
        if group.result is not None:
            place, opening = group.result
            if flow.parts[place : place + 1] != [opening]:
                self._end_paragraph(flow, whole.end)
                return
            is_link = "HYPERLINK" in self._text[opening.start : opening.end]
            if is_link and any(not part.is_blank for part in flow.parts[place + 1 :]):
                start, link = group.end_of_result, opening.link
                whole = Part("close", start, whole.end, opening.formatting, link=link)
            else:
                del flow.parts[place:]
        self._add(whole)

    def _end_paragraph(self, flow: _Flow | None, end: int) -> None:
        if flow is None:
            return
        parts, flow.parts, flow.end = flow.parts, [], end
        closed = {part.link for part in parts if part.kind == "close"}
        # A field over several paragraphs cannot be moved, so it divides the one it begins in.
        cuts = [
            n for n, part in enumerate(parts) if part.kind == "open" and part.link not in closed
        ]
        for before, after in pairwise([-1, *cuts, len(parts)]):
            if of_paragraph := trimmed(parts[before + 1 : after]):
                paragraph = RichParagraph(of_paragraph, self._fonts)
                if paragraph.source is not None:
                    self._paragraphs.append((paragraph, paragraph.source))
