"""Grammar of paragraphs of mixed content: OpenDocument, XLIFF, TMX, contents lists of books."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from service.documents.fragments.atoms import Atom, Format, name_of
from service.documents.fragments.fragment import Kind

_BLANKS = re.compile(r"[ \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Mixed:
    """Names of elements by behaviour; an element of another name is a thing."""

    containers: frozenset[str] = frozenset()
    spans: frozenset[str] = frozenset()
    """Elements that only format text. They are joined and left out like runs."""
    invisible_spans: frozenset[str] = frozenset()
    """Values of a ``style-name`` that changes nothing to be seen."""
    blanks: frozenset[str] = frozenset()
    """Elements for blanks. Three and more, which set text apart as a tab does, are a break."""
    breaks: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    of_the_source: frozenset[str] = frozenset()
    """Left out of a translation."""
    ends: dict[str, str] = field(default_factory=dict)
    """Names of empty elements that begin a pair, and of those that end it with the same id."""
    squeezes: bool = False
    """Whether a run of blanks is one blank."""

    def atoms_of(self, element: etree._Element) -> list[Atom]:
        atoms = list(self._inside(element, None))
        return list(self._paired(atoms)) if self.ends else atoms

    def format_of(self, properties: etree._Element | None) -> Format:
        return () if properties is None else tuple(sorted(properties.attrib.items()))

    def clear(self, element: etree._Element) -> None:
        element.text = None
        for child in list(element):
            element.remove(child)

    def holder_of(self, element: etree._Element) -> etree._Element:
        return element

    def say(self, holder: etree._Element, text: str, properties: etree._Element | None) -> None:
        if properties is not None:
            span = etree.SubElement(holder, properties.tag, dict(properties.attrib))
            span.text = text
        elif len(holder):
            holder[-1].tail = (holder[-1].tail or "") + text
        else:
            holder.text = (holder.text or "") + text

    def put(self, holder: etree._Element, atom: Atom) -> None:
        if atom.properties is not None:
            holder = etree.SubElement(holder, atom.properties.tag, dict(atom.properties.attrib))
        atom.element.tail = None
        holder.append(atom.element)

    def _inside(self, holder: etree._Element, properties: etree._Element | None) -> Iterator[Atom]:
        yield self._text(holder, holder.text, properties)
        for child in holder:
            yield from self._atoms(child, properties)
            yield self._text(holder, child.tail, properties)

    def _text(
        self, holder: etree._Element, text: str | None, properties: etree._Element | None
    ) -> Atom:
        content = _BLANKS.sub(" ", text or "") if self.squeezes else text or ""
        return Atom("text", holder, properties, text=content)

    def _atoms(self, element: etree._Element, properties: etree._Element | None) -> Iterator[Atom]:
        name = name_of(element)
        if name in self.spans and not self._has_tags(element):
            yield from self._inside(element, None if self._is_invisible(element) else element)
        elif name in self.containers | self.spans and not _asks_not_to(element):
            yield Atom("open", element, loose=True)
            yield from self._inside(element, None)
            yield Atom("close", element, loose=True)
        elif name in self.blanks and not _sets_apart(element):
            yield Atom("text", element, properties, text=" ")
        elif name not in self.of_the_source:
            yield Atom(self._kind(name), element, properties, loose=properties is None)

    def _kind(self, name: str) -> Kind:
        if name in self.breaks | self.blanks:
            return "break"
        # Comments and processing instructions have no name.
        return "mark" if name in self.marks or not name else "thing"

    def _has_tags(self, element: etree._Element) -> bool:
        return any(name_of(each) in self.containers | self.spans for each in element)

    def _is_invisible(self, element: etree._Element) -> bool:
        styles = [value for key, value in element.items() if key.endswith("}style-name")]
        return all(style in self.invisible_spans for style in styles)

    def _paired(self, atoms: list[Atom]) -> Iterator[Atom]:
        """Turn empty elements that begin and end a pair into tags."""
        begun: dict[tuple[str, str], Atom] = {}
        tags: dict[int, Atom] = {}
        for atom in atoms:
            name, number = name_of(atom.element), _number_of(atom.element)
            if atom.kind != "thing" or not number:
                continue
            if name in self.ends:
                begun[self.ends[name], number] = atom
            elif (name, number) in begun:
                start = begun.pop((name, number))
                tags[id(start.element)] = Atom("open", start.element, parts=(start,))
                tags[id(atom.element)] = Atom("close", start.element, parts=(atom,))
        for atom in atoms:
            yield atom if atom.kind == "text" else tags.get(id(atom.element), atom)


def _asks_not_to(element: etree._Element) -> bool:
    return element.get("translate") == "no" or element.get("mtype") == "protected"


def _sets_apart(element: etree._Element) -> bool:
    """Whether an element is for three blanks or more; its number may be missing."""
    counts = [value for key, value in element.items() if key.endswith("}c")]
    return any(value not in ("1", "2") for value in counts)


def _number_of(element: etree._Element) -> str:
    """Attribute that pairs two elements: ``startRef`` (XLIFF 2), ``rid`` (XLIFF 1.2), ``i``
    (TMX)."""
    for name in ("startRef", "rid", "i", "id"):
        if value := element.get(name):
            return str(value)
    return ""
