"""Reads and writes Word documents: paragraphs of body, tables, text boxes, headers and notes.

Parts without text, such as pictures, styles and settings, are never parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lxml import etree

from service.documents.archive import Archive
from service.documents.paragraph import Paragraph
from service.documents.types import BrokenDocument, Document, MarkedSource

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_CONTENT_TYPES = "[Content_Types].xml"
_MAIN = ".document.main+xml"
_SPOKEN = (_MAIN, ".header+xml", ".footer+xml", ".footnotes+xml", ".endnotes+xml")
_PARAGRAPHS = (
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}p",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}p",
)


def open_docx(content: bytes) -> Document:
    """Open a .docx; raises ``BrokenDocument`` if it is no zip, too large, or not from Word."""
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise BrokenDocument(
            "this is a .doc file or has a password; save it as .docx without a password"
        )
    return _WordDocument(Archive(content))


class _WordDocument:
    """Parses again in each call of ``replaced``, and keeps no XML trees in between."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._parts = tuple(_spoken_parts(archive))
        self._texts = tuple(
            source
            for part in self._parts
            for paragraph in _paragraphs(_parsed(archive, part))
            if (source := paragraph.source) is not None
        )

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPE

    @property
    def texts(self) -> tuple[MarkedSource, ...]:
        return self._texts

    def replaced(self, translations: Sequence[str]) -> bytes:
        pairs = iter(zip(self._texts, translations, strict=True))
        rewritten: dict[str, bytes] = {}
        for part in self._parts:
            root = _parsed(self._archive, part)
            changed = False
            for paragraph in _paragraphs(root):
                if paragraph.source is None:
                    continue
                source, translation = next(pairs)
                if translation != source.text:
                    paragraph.replace(translation)
                    changed = True
            if changed:
                rewritten[part] = etree.tostring(
                    root.getroottree(), xml_declaration=True, encoding="UTF-8", standalone=True
                )
        assert next(pairs, None) is None
        return self._archive.rewritten(rewritten)


def _spoken_parts(archive: Archive) -> Iterator[str]:
    if _CONTENT_TYPES not in archive:
        raise BrokenDocument("this zip file is not a .docx: it has no list of content types")
    types: dict[str, str] = {}
    for entry in _parsed(archive, _CONTENT_TYPES).iter("{*}Override"):
        types[entry.get("PartName", "").lstrip("/")] = entry.get("ContentType", "")
    parts = [part for part, kind in types.items() if kind.endswith(_SPOKEN)]
    if not any(types[part].endswith(_MAIN) for part in parts):
        raise BrokenDocument("this zip file is not a .docx: it has no document of Word in it")
    for part in sorted(parts, key=lambda part: not types[part].endswith(_MAIN)):
        if part not in archive:
            raise BrokenDocument(f"the document lacks its part {part[:80]}")
        yield part


def _parsed(archive: Archive, part: str) -> etree._Element:
    # No external resource is read and no entity is expanded (XXE, billion laughs).
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False
    )
    try:
        root = etree.fromstring(archive.read(part), parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise BrokenDocument(f"{part[:80]} is not well-formed XML: {error.msg}") from error
    if root.getroottree().docinfo.doctype:
        raise BrokenDocument(f"{part[:80]} declares a document type, which no .docx may")
    return root


def _paragraphs(root: etree._Element) -> list[Paragraph]:
    """All paragraphs, nested ones in text boxes included, listed before any is replaced."""
    return [Paragraph(element) for element in root.iter(*_PARAGRAPHS)]
