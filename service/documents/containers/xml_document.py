"""Document or part of one in XML, parsed without external resources, whose units are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from service.documents.types import BrokenDocument, MarkedSource


class Unit(Protocol):
    """A text in the tree of a document."""

    @property
    def source(self) -> MarkedSource | None:
        """``None`` if there is nothing to translate."""
        ...

    def replace(self, translation: str) -> None:
        """Write a translation into the tree; raises ``MarkupLost``."""
        ...


FindUnits = Callable[[etree._Element], Iterable[Unit]]
"""The units below a root element, in reading order."""
Finish = Callable[[etree._Element], bool]
"""Changes metadata of a tree when it is written, such as its language; whether it changed any."""


@dataclass(frozen=True, slots=True)
class _Tree:
    root: etree._Element
    units: list[tuple[Unit, MarkedSource]]


class XmlDocument:
    """A ``Document`` of the units that ``find`` returns; nothing else of the tree changes."""

    def __init__(
        self,
        content: bytes,
        name: str,
        find: FindUnits,
        media_type: str = "application/xml",
        finish: Finish = lambda root: False,
    ) -> None:
        """``name`` is that of the file or part in messages. Raises ``BrokenDocument``."""
        self._content = content
        self._name = name
        self._find = find
        self.media_type = media_type
        self._finish = finish
        self._opened: _Tree | None = self._open()
        self.texts = tuple(source for _, source in self._opened.units)

    def replaced(self, translations: Sequence[str]) -> bytes:
        tree, self._opened = self._opened or self._open(), None
        changed = False
        for (unit, source), translation in zip(tree.units, translations, strict=True):
            if translation != source.text:
                unit.replace(translation)
                changed = True
        if not (self._finish(tree.root) or changed):
            return self._content
        file = tree.root.getroottree()
        encoding = file.docinfo.encoding or "UTF-8"
        return etree.tostring(
            file,
            xml_declaration=True,
            # UTF-16LE would have no byte order mark, which XML demands of UTF-16.
            encoding="UTF-16" if encoding.upper().startswith("UTF-16") else encoding,
            # Absent is False, too, and means the same.
            standalone=file.docinfo.standalone or None,
        )

    def _open(self) -> _Tree:
        root = parsed(self._content, self._name)
        # Units may nest, as in text boxes, so all are found before any is replaced.
        units = [(unit, unit.source) for unit in list(self._find(root))]
        return _Tree(root, [(unit, source) for unit, source in units if source is not None])


def parsed(content: bytes, name: str) -> etree._Element:
    """The root element; raises ``BrokenDocument`` if it is not well formed or has entities."""
    # No external resource is read and no entity is expanded (XXE, billion laughs).
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise BrokenDocument(f"{name[:80]} is not well-formed XML: {error.msg}") from error
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise BrokenDocument(f"{name[:80]} declares entities, which no document may")
    return root
