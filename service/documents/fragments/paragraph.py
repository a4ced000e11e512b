"""Converts a paragraph in XML to a translatable fragment, and its translation back to elements.

The most frequent formatting of a paragraph, and of each container in it such as a link, is the
default; only text with another format is tagged. Adjacent texts of equal format are merged.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lxml import etree

from service.documents.fragments.atoms import Atom, Format, Grammar
from service.documents.fragments.fragment import Fragment, Piece

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Paragraph:
    """Wraps a paragraph element, which ``replace`` changes in place."""

    def __init__(self, element: etree._Element, grammar: Grammar) -> None:
        self._element = element
        self._grammar = grammar
        atoms = grammar.atoms_of(element)
        self._atoms: dict[str, Atom] = {}
        """Atoms of tags, by the text of their pieces."""
        self._properties: dict[str, etree._Element | None] = {}
        """Run properties of the text after a tag, by the tag's piece text; "" before any tag."""
        self._fragment = Fragment(self._pieces(atoms))
        self.source = self._fragment.source

    def replace(self, translation: str) -> None:
        """Replace the source by a translation; raises ``MarkupLost``."""
        pieces = self._fragment.replaced(translation)
        opened = [(self._grammar.holder_of(self._element), self._properties[""])]
        self._grammar.clear(self._element)
        for piece in pieces:
            holder, properties = opened[-1]
            atom = self._atoms.get(piece.text)
            if piece.kind == "text":
                self._grammar.say(holder, _NOT_IN_XML.sub("", piece.text), properties)
            elif piece.kind == "open" and atom is None:
                opened.append((holder, self._properties[piece.text]))
            elif piece.kind == "open" and atom is not None and atom.loose:
                self._grammar.put(holder, atom)
                self._grammar.clear(atom.element)
                inner = self._grammar.holder_of(atom.element)
                opened.append((inner, self._properties[piece.text]))
            elif piece.kind == "close" and (atom is None or atom.loose):
                opened.pop()
            elif atom is not None:
                self._put(holder, atom)
                if piece.kind == "open":
                    opened.append((holder, self._properties[piece.text]))
                elif piece.kind == "close":
                    opened.pop()

    def _pieces(self, atoms: Sequence[Atom]) -> Iterator[Piece]:
        looks = self._usual_looks(atoms)
        opened = [""]
        self._properties[""] = looks[""].properties
        for number, atom in enumerate(self._runs_joined(atoms)):
            tag = str(number)
            if atom.kind == "text":
                yield from self._said(atom, tag, looks[opened[-1]])
                continue
            if atom.kind == "close":
                opened.pop()
            self._atoms[tag] = atom
            if atom.kind == "open":
                opened.append(str(id(atom.element)))
                self._properties[tag] = looks[opened[-1]].properties
            yield Piece(atom.kind, tag, f"element {id(atom.element)}")

    def _said(self, atom: Atom, tag: str, usual: _Look) -> Iterator[Piece]:
        if not atom.text.strip() or self._grammar.format_of(atom.properties) == usual.format:
            yield Piece("text", atom.text)
            return
        self._properties[tag] = atom.properties
        yield Piece("open", tag, tag)
        yield Piece("text", atom.text)
        yield Piece("close", tag, tag)

    def _put(self, holder: etree._Element, atom: Atom) -> None:
        if not atom.parts:
            self._grammar.put(holder, atom)
        for part in atom.parts:
            self._put(holder, part)

    def _usual_looks(self, atoms: Sequence[Atom]) -> defaultdict[str, _Look]:
        """Most frequent formatting of the paragraph (key "") and of each container."""
        lengths: defaultdict[str, Counter[Format]] = defaultdict(Counter)
        properties: dict[Format, etree._Element | None] = {}
        opened = [""]
        for atom in atoms:
            if atom.kind == "open":
                opened.append(str(id(atom.element)))
            elif atom.kind == "close":
                opened.pop()
            elif atom.kind == "text":
                look = self._grammar.format_of(atom.properties)
                properties.setdefault(look, atom.properties)
                lengths[opened[-1]][look] += len(atom.text.strip())
        looks: defaultdict[str, _Look] = defaultdict(_Look)
        for container, counted in lengths.items():
            ((look, _),) = counted.most_common(1)
            looks[container] = _Look(look, properties[look])
        return looks

    def _runs_joined(self, atoms: Sequence[Atom]) -> Iterator[Atom]:
        """Merge adjacent texts of equal format."""
        for _, group in itertools.groupby(atoms, self._look_of_text):
            first, *following = group
            if first.kind != "text":
                yield first
                yield from following
                continue
            yield replace(first, text="".join(atom.text for atom in (first, *following)))

    def _look_of_text(self, atom: Atom) -> Format | None:
        return self._grammar.format_of(atom.properties) if atom.kind == "text" else None


@dataclass(frozen=True, slots=True)
class _Look:
    format: Format = ()
    properties: etree._Element | None = None
