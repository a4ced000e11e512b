"""Converts a Word paragraph to a translatable fragment, and its translation back to runs.

The most frequent formatting of a paragraph, and of each container in it such as a link, is the
default; only text with another format is tagged. Adjacent runs of equal format are merged.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lxml import etree

from service.documents.atoms import Atom, Format, atoms_of, contents_of, format_of, holder_of
from service.documents.fragment import Fragment, Piece
from service.documents.types import MarkedSource

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Paragraph:
    """Wraps a paragraph element, which ``replace`` changes in place."""

    def __init__(self, element: etree._Element) -> None:
        self._element = element
        self._namespace = etree.QName(element).namespace
        atoms = atoms_of(element)
        self._atoms: dict[str, Atom] = {}
        """Atoms of tags, by the text of their pieces."""
        self._properties: dict[str, etree._Element | None] = {}
        """Run properties of the text after a tag, by the tag's piece text; "" before any tag."""
        self._fragment = Fragment(self._pieces(atoms))

    @property
    def source(self) -> MarkedSource | None:
        return self._fragment.source

    def replace(self, translation: str) -> None:
        """Replace the source by a translation; raises ``MarkupLost``."""
        pieces = self._fragment.replaced(translation)
        opened = [(self._element, self._properties[""])]
        _empty(self._element)
        for piece in pieces:
            holder, properties = opened[-1]
            atom = self._atoms.get(piece.text)
            if piece.kind == "text":
                self._say(holder, piece.text, properties)
            elif piece.kind == "open" and atom is None:
                opened.append((holder, self._properties[piece.text]))
            elif piece.kind == "open" and atom is not None and atom.loose:
                holder.append(atom.element)
                _empty(holder_of(atom.element))
                opened.append((holder_of(atom.element), self._properties[piece.text]))
            elif piece.kind == "close" and (atom is None or atom.loose):
                opened.pop()
            elif atom is not None:
                self._put(holder, atom)
                if piece.kind == "open":
                    opened.append((holder, self._properties[piece.text]))
                elif piece.kind == "close":
                    opened.pop()

    def _pieces(self, atoms: Sequence[Atom]) -> Iterator[Piece]:
        looks = _usual_looks(atoms)
        opened = [""]
        self._properties[""] = looks[""].properties
        for number, atom in enumerate(_runs_joined(atoms)):
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
        if not atom.text.strip() or format_of(atom.properties) == usual.format:
            yield Piece("text", atom.text)
            return
        self._properties[tag] = atom.properties
        yield Piece("open", tag, tag)
        yield Piece("text", atom.text)
        yield Piece("close", tag, tag)

    def _say(self, holder: etree._Element, text: str, properties: etree._Element | None) -> None:
        run = self._run(holder, properties)
        said = etree.SubElement(run, self._name("t"))
        said.text = _NOT_IN_XML.sub("", text)
        said.set(_SPACE, "preserve")

    def _put(self, holder: etree._Element, atom: Atom) -> None:
        if atom.parts:
            for part in atom.parts:
                self._put(holder, part)
        elif atom.loose:
            holder.append(atom.element)
        else:
            self._run(holder, atom.properties).append(atom.element)

    def _run(self, holder: etree._Element, properties: etree._Element | None) -> etree._Element:
        run = etree.SubElement(holder, self._name("r"))
        if properties is not None:
            run.append(copy.deepcopy(properties))
        return run

    def _name(self, name: str) -> str:
        return f"{{{self._namespace}}}{name}"


@dataclass(frozen=True, slots=True)
class _Look:
    format: Format = ()
    properties: etree._Element | None = None


def _usual_looks(atoms: Sequence[Atom]) -> defaultdict[str, _Look]:
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
            look = format_of(atom.properties)
            properties.setdefault(look, atom.properties)
            lengths[opened[-1]][look] += len(atom.text.strip())
    looks: defaultdict[str, _Look] = defaultdict(_Look)
    for container, counted in lengths.items():
        ((look, _),) = counted.most_common(1)
        looks[container] = _Look(look, properties[look])
    return looks


def _runs_joined(atoms: Sequence[Atom]) -> Iterator[Atom]:
    """Merge adjacent texts of equal format."""
    for _, group in itertools.groupby(atoms, _look_of_text):
        first, *following = group
        if first.kind != "text":
            yield first
            yield from following
            continue
        yield replace(first, text="".join(atom.text for atom in (first, *following)))


def _look_of_text(atom: Atom) -> Format | None:
    return format_of(atom.properties) if atom.kind == "text" else None


def _empty(holder: etree._Element) -> None:
    for child in contents_of(holder):
        holder.remove(child)
