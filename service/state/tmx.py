"""Reads and writes TMX files. Blocks; takes constant memory beside the units.

Tags within segments are left out. One source language is read, that of the header or of the first
unit, and translations into all others, without their regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from service.state.errors import InvalidMemory

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_MARKUP = frozenset({"bpt", "ept", "ph", "it", "ut"})
_ANY = "*all*"
_READ_AT_ONCE = 1 << 16

MemoryUnit = tuple[str, Mapping[str, str]]
"""A source text, and its translations by language."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    memories: int = 100
    """Memories of one owner."""
    units: int = 100_000
    """Units of one memory."""
    characters: int = 40_000_000
    """Characters of all units of one memory."""
    unit_characters: int = 5_000
    """Characters of a text in a unit. Units with a longer one are skipped."""
    jobs: int = 100
    """Imports and exports of one owner in a day."""
    file_bytes: int = 64 << 20


@dataclass(slots=True)
class ReadMemory:
    source: str = ""
    units: list[MemoryUnit] = field(default_factory=list)
    skipped: int = 0
    """Units without a source or a translation, or with too long ones."""

    @property
    def targets(self) -> list[str]:
        return sorted({language for _, targets in self.units for language in targets})


def read_tmx(file: BinaryIO, limits: MemoryLimits) -> ReadMemory:
    """The units of a file; raises ``InvalidMemory``."""
    read = ReadMemory()
    characters = 0
    try:
        for unit in _units(file, read):
            source, targets = unit
            sizes = len(source), *map(len, targets.values())
            if not source or not targets or max(sizes) > limits.unit_characters:
                read.skipped += 1
                continue
            read.units.append(unit)
            characters += sum(sizes)
            if len(read.units) > limits.units or characters > limits.characters:
                raise InvalidMemory(
                    f"a translation memory has at most {limits.units} units with "
                    f"{limits.characters} characters; divide the file"
                )
    except etree.XMLSyntaxError as error:
        raise InvalidMemory(f"the TMX is not well formed: {error.msg}") from error
    if not read.units:
        raise InvalidMemory("the TMX has no unit with a text and its translation")
    return read


def _units(file: BinaryIO, read: ReadMemory) -> Iterator[MemoryUnit]:
    parser = etree.XMLPullParser(
        events=("end",), resolve_entities=False, no_network=True, load_dtd=False
    )
    while content := file.read(_READ_AT_ONCE):
        parser.feed(content)
        for _, element in parser.read_events():
            match etree.QName(element).localname if isinstance(element.tag, str) else "":
                case "header" if not read.source:
                    read.source = _language(element.get("srclang"))
                case "tu":
                    yield _unit(element, read)
                    # The unit, and those before it, would stay in memory.
                    parent = element.getparent()
                    element.clear()
                    while parent is not None and parent[0] is not element:
                        del parent[0]
    parser.close()


def _unit(element: etree._Element, read: ReadMemory) -> MemoryUnit:
    texts: dict[str, str] = {}
    for variant in element.findall("{*}tuv"):
        segment = variant.find("{*}seg")
        if segment is not None and (text := "".join(_texts(segment)).strip()):
            texts.setdefault(_language(variant.get(_LANG) or variant.get("lang")), text)
    read.source = read.source or next(iter(texts), "")
    return texts.pop(read.source, ""), texts


def _texts(element: etree._Element) -> Iterator[str]:
    """The text of a segment without the content of its tags."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _MARKUP:
            yield from _texts(child)
        yield child.tail or ""


def _language(code: str | None) -> str:
    """The language of a code such as ``de-AT``; empty for none or any."""
    named = (code or "").strip().replace("_", "-").lower()
    return "" if named == _ANY else named.partition("-")[0]


def write_tmx(source: str, units: Iterable[MemoryUnit]) -> Iterator[bytes]:
    """The parts of a file."""
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        '<header creationtool="Dragoman" creationtoolversion="1" segtype="sentence" '
        'o-tmf="none" adminlang="en" '
        f'srclang={quoteattr(source)} datatype="plaintext"/>\n<body>\n'
    ).encode()
    for text, targets in units:
        variants = "".join(
            f"<tuv xml:lang={quoteattr(code)}><seg>{escape(each)}</seg></tuv>"
            for code, each in ((source, text), *targets.items())
        )
        yield f"<tu>{variants}</tu>\n".encode()
    yield b"</body>\n</tmx>\n"
