r"""Converts a paragraph of Rich Text Format to a fragment, and its translation back to RTF.

Programs divide sentences into groups, often within a word. Texts are therefore compared by the
formatting in effect, and the most frequent one of the paragraph, or of a link in it, is untagged.
A translated paragraph is written in the formatting state of its first part; text of another
formatting is a group, such as ``{\b bold}``. Braces and control words that stood between the parts
follow the paragraph, which restores the formatting and depth of groups after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from service.documents.fragments.fragment import Fragment, Kind, Piece

Formatting = Mapping[str, str]
"""Control words in effect, such as ``b`` and ``fs24``, by the name of the property they set."""
_Look = frozenset[tuple[str, str]]

_PROPERTIES = frozenset(
    {
        *("b", "i", "strike", "striked", "caps", "scaps", "outl", "shad", "embo", "impr", "v"),
        *("ab", "ai", "f", "fs", "cf", "cb", "highlight", "chcbpat", "expnd", "expndtw", "up"),
        *("dn", "ulc", "super", "uc"),
    }
)
_RESETS = {"ul": "ulnone", "super": "nosupersub", "fs": "fs24"}
_OTHER_SCRIPT = re.compile(r" (CE|Cyr|Greek|Tur|Baltic|\(\w+\))$")
"""Suffix of a font's name by which Word distinguishes the code pages of one font."""
_SPECIAL = re.compile(r"[\\{}\t\n]|[^ -~]")
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\ufffe\uffff]")
_UNDELIMITED = re.compile(r"(?<!\\)(?:\\\\)*+\\[a-zA-Z]+(?:-?\d+)?\Z")
_CONTINUATION = re.compile("[a-zA-Z0-9 -]")
_LONGEST_WORD = 50


def changed(formatting: Formatting, word: str, number: str) -> Formatting:
    """The formatting after a control word."""
    if word == "plain":
        return {"uc": formatting["uc"]} if "uc" in formatting else {}
    name = {"sub": "super", "nosupersub": "super"}.get(word, word)
    if word.startswith("ul") and word != "ulc":
        name = "ul"
    elif name not in _PROPERTIES:
        return formatting
    others = {key: value for key, value in formatting.items() if key != name}
    is_off = word in ("ulnone", "nosupersub") or (number == "0" and name not in ("f", "uc"))
    return others if is_off else {**others, name: word + number}


@dataclass(slots=True)
class Fonts:
    """Code pages and names of the fonts of a file, by control word, such as ``f1``."""

    default: str = "f0"
    code_page: str = "cp1252"
    code_pages: dict[str, str] = field(default_factory=dict)
    """Names of codecs; empty for fonts of symbols, which have no letters."""
    names: dict[str, str] = field(default_factory=dict)

    def code_page_of(self, formatting: Formatting) -> str:
        return self.code_pages.get(formatting.get("f", self.default), self.code_page)

    def look(self, formatting: Formatting) -> _Look:
        """Equal for texts that look alike."""
        font = formatting.get("f", self.default)
        name = _OTHER_SCRIPT.sub("", self.names.get(font, font).partition(";")[0].strip())
        return frozenset({"fs": "fs24", **formatting, "f": name, "uc": ""}.items())

    def change(self, before: Formatting, after: Formatting) -> str:
        """Control words that change one formatting to another."""
        names = {name for name, _ in self.look(before) ^ self.look(after)}
        resets = {"f": self.default, **_RESETS}
        return "".join(
            "\\" + after.get(name, resets.get(name, f"{name}0")) for name in sorted(names)
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A text, an object, or an end of a link, at characters ``start`` to ``end`` of the file."""

    kind: Kind
    start: int
    end: int
    formatting: Formatting
    text: str = ""
    link: int = 0
    """Number of the link that it opens or closes."""

    @property
    def is_blank(self) -> bool:
        return self.kind not in ("open", "close") and not self.text.strip()


def trimmed(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts without blanks, objects and links around all text at both ends."""
    first, last = 0, len(parts)
    while first < last:
        if parts[first].is_blank:
            first += 1
        elif parts[last - 1].is_blank:
            last -= 1
        elif parts[first].link and parts[first].link == parts[last - 1].link:
            first, last = first + 1, last - 1
        else:
            break
    return parts[first:last]


class RichParagraph:
    """Place of the trimmed parts of a paragraph, of which there is at least one."""

    def __init__(self, parts: Sequence[Part], fonts: Fonts) -> None:
        self.start = parts[0].start
        self.end = parts[-1].end
        self._parts = parts
        self._fonts = fonts
        self._usual = self._usual_formattings()
        self._tags: dict[str, tuple[Sequence[Part], Formatting]] = {}
        """Parts of each tag, and the formatting of the text in it, by the text of its piece."""
        self._fragment = Fragment(self._pieces())
        self.source = self._fragment.source

    def _usual_formattings(self) -> dict[int, Formatting]:
        """Most frequent formatting of the paragraph (key 0) and of each link."""
        lengths: Counter[tuple[int, _Look]] = Counter()
        formattings: dict[_Look, Formatting] = {}
        for link, part in self._in_links():
            look = self._fonts.look(part.formatting)
            formattings.setdefault(look, part.formatting)
            lengths[link, look] += len(part.text.strip())
        return {link: formattings[look] for (link, look), _ in reversed(lengths.most_common())}

    def _in_links(self) -> Iterator[tuple[int, Part]]:
        """Each part with the link that contains it; ends of a link are outside of it."""
        links = [0]
        for part in self._parts:
            if part.kind == "close":
                links.pop()
            yield links[-1], part
            if part.kind == "open":
                links.append(part.link)

    def _kept_together(self, linked: tuple[int, Part]) -> object:
        part = linked[1]
        if part.kind in ("text", "thing"):
            return part.kind, part.is_blank, self._fonts.look(part.formatting)
        return part.start

    def _pieces(self) -> Iterator[Piece]:
        for number, (_, group) in enumerate(groupby(self._in_links(), self._kept_together)):
            links, parts = zip(*group, strict=True)
            first, tag = parts[0], str(number)
            if first.kind != "text":
                usual = self._usual.get(first.link, first.formatting)
                self._tags[tag] = parts, usual if first.kind == "open" else first.formatting
                yield Piece(first.kind, tag, f"link {first.link}")
                continue
            units = "".join(part.text for part in parts).encode("utf-16-le", "surrogatepass")
            text = Piece("text", _CONTROLS.sub("", units.decode("utf-16-le", "replace")))
            look = self._fonts.look(first.formatting)
            if first.is_blank or look == self._fonts.look(self._usual[links[0]]):
                yield text
            else:
                self._tags[tag] = (), first.formatting
                yield from (Piece("open", tag, tag), text, Piece("close", tag, tag))

    def written(self, translation: str, original: Callable[[int, int], str]) -> str:
        """RTF of a translation; ``original`` gives parts of the file."""
        base = self._parts[0].formatting
        formattings = [self._usual.get(0, base)]
        written: list[str] = []
        for piece in self._fragment.replaced(translation):
            if piece.kind == "text":
                written.append(self._formatted(piece.text, base, formattings[-1]))
                continue
            parts, formatting = self._tags[piece.text]
            raw = joined(original(part.start, part.end) for part in parts)
            if piece.kind == "thing":
                change = self._fonts.change(base, formatting)
                raw = f"{{{change} {raw}}}" if change else raw
            written.append(raw)
            if piece.kind == "open":
                formattings.append(formatting)
            elif piece.kind == "close":
                formattings.pop()
        written += (original(one.end, other.start) for one, other in pairwise(self._parts))
        return joined(written)

    def _formatted(self, text: str, base: Formatting, formatting: Formatting) -> str:
        change = self._fonts.change(base, formatting)
        if not text.isascii() and base.get("uc", "uc1") != "uc1":
            change += "\\uc1"
        escaped = _SPECIAL.sub(_escape, text)
        return f"{{{change} {escaped}}}" if change else escaped


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\\{}":
        return "\\" + character
    if character in "\t\n":
        return {"\t": r"\tab ", "\n": r"\line "}[character]
    if character < " ":
        return ""
    units = memoryview(character.encode("utf-16-le", "replace")).cast("h")
    return "".join(f"\\u{unit}?" for unit in units)


def joined(parts: Iterable[str]) -> str:
    """The parts, with blanks after control words to which the next part would belong."""
    written = [""]
    for part in parts:
        if _CONTINUATION.match(part) and _UNDELIMITED.search(written[-1][-_LONGEST_WORD:]):
            written.append(" ")
        if part:
            written.append(part)
    return "".join(written)
