"""Atoms of a paragraph in XML: text, tags, breaks and objects, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from service.documents.fragments.fragment import Kind

Format = tuple[object, ...]
"""Equal for properties of texts that look alike."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A text element, an opening or closing tag, or a group of elements.

    ``properties`` are those of the run that contained the element. An element outside of runs has
    none and is ``loose``. ``parts`` are the atoms of a field tag or of a grouped object.
    """

    kind: Kind
    element: etree._Element
    properties: etree._Element | None = None
    loose: bool = False
    text: str = ""
    parts: tuple[Atom, ...] = ()


class Grammar(Protocol):
    """Reads and writes the paragraphs of one family of formats."""

    def atoms_of(self, element: etree._Element) -> list[Atom]:
        """The atoms of a paragraph or a container, in order."""
        ...

    def format_of(self, properties: etree._Element | None) -> Format: ...

    def clear(self, element: etree._Element) -> None:
        """Remove the content of a paragraph or a container, and keep its properties."""
        ...

    def holder_of(self, element: etree._Element) -> etree._Element:
        """The element whose children are the content of ``element``."""
        ...

    def say(self, holder: etree._Element, text: str, properties: etree._Element | None) -> None:
        """Append text of the given properties."""
        ...

    def put(self, holder: etree._Element, atom: Atom) -> None:
        """Append the element of an atom without parts."""
        ...


def name_of(element: etree._Element) -> str:
    """Tag name without namespace; empty for comments and processing instructions."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
