"""Opens OpenDocument files: .odt, .ods and .odp.

Formulas, their results, numbers, dates and fields stay as they are, and so do deleted texts of
tracked changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from lxml import etree

from service.documents.containers.archive import Archive
from service.documents.containers.xml_document import XmlDocument, parsed
from service.documents.containers.zipped import ZippedDocument
from service.documents.fragments.atoms import name_of
from service.documents.fragments.mixed import Mixed
from service.documents.fragments.paragraph import Paragraph
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"
_CONTENT, _STYLES = "content.xml", "styles.xml"

_OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _OFFICE = (f"{{{_OASIS}{name}:1.0}}" for name in ("text", "table", "office"))
_STYLE = f"{{{_OASIS}style:1.0}}"
_DRAWING = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_PARAGRAPHS = (f"{_TEXT}p", f"{_TEXT}h", f"{_DRAWING}title", f"{_DRAWING}desc")
_AROUND = (
    f"{_TABLE}table-cell",
    f"{_TABLE}covered-table-cell",
    f"{_TEXT}tracked-changes",
    f"{_OFFICE}annotation",
)
_UNSEEN_ATTRIBUTES = ("rsid", "language", "country", "script", "language-tag")
"""Ends of the names of attributes that record revisions and languages."""

_GRAMMAR = Mixed(
    containers=frozenset({"a", "meta"}),
    spans=frozenset({"span"}),
    blanks=frozenset({"s"}),
    breaks=frozenset({"line-break", "tab"}),
    marks=frozenset(
        {
            *("bookmark", "bookmark-start", "bookmark-end", "reference-mark"),
            *("reference-mark-start", "reference-mark-end", "change", "change-start", "change-end"),
            *("toc-mark", "toc-mark-start", "toc-mark-end", "annotation", "annotation-end"),
            *("alphabetical-index-mark", "alphabetical-index-mark-start"),
            *("alphabetical-index-mark-end", "user-index-mark"),
        }
    ),
    of_the_source=frozenset({"soft-page-break"}),
    squeezes=True,
)


def _open(extension: str, kind: str, content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file; raises ``BrokenDocument`` if it is no zip, encrypted, or of another kind."""
    archive = Archive(content, extension)
    media_type = _MEDIA_TYPE + kind
    # An encrypted file may have its content in an entry of another name.
    if _MANIFEST in archive:
        manifest = parsed(archive.read(_MANIFEST), _MANIFEST)
        if next(manifest.iter("{*}encryption-data"), None) is not None:
            raise BrokenDocument("the file is protected by a password; save it without one")
    for part in (_CONTENT, _MANIFEST):
        if part not in archive:
            raise BrokenDocument(f"this zip file is not an {extension}: it has no {part}")
    stated = archive.read("mimetype").decode("ascii", "replace") if "mimetype" in archive else ""
    if stated.strip() and stated.strip().removesuffix("-template") != media_type:
        raise BrokenDocument(f"this file is not an {extension}, but {stated.strip()[:80]}")
    parts = [name for name in (_CONTENT, _STYLES) if name in archive]
    # Charts and other objects are directories of their own.
    parts += sorted(name for name in archive if name.endswith(f"/{_CONTENT}"))
    return ZippedDocument(
        archive,
        media_type,
        {part: partial(XmlDocument, name=part, find=_paragraphs) for part in parts},
    )


open_odt = partial(_open, ".odt", "text")
open_ods = partial(_open, ".ods", "spreadsheet")
open_odp = partial(_open, ".odp", "presentation")


def _paragraphs(root: etree._Element) -> Iterator[_Paragraph]:
    grammar = replace(_GRAMMAR, invisible_spans=frozenset(_invisible_styles(root)))
    for element in root.iter(*_PARAGRAPHS):
        cell = _cell_of(element)
        if cell is None or _has_text(cell):
            yield _Paragraph(element, grammar, cell)


class _Paragraph:
    """A paragraph. Its cell may hold the text once more, as an attribute that replaces it."""

    def __init__(
        self, element: etree._Element, grammar: Mixed, cell: etree._Element | None
    ) -> None:
        self._paragraph = Paragraph(element, grammar)
        self._cell = cell
        self.source = self._paragraph.source

    def replace(self, translation: str) -> None:
        self._paragraph.replace(translation)
        if self._cell is not None:
            self._cell.attrib.pop(f"{_OFFICE}string-value", None)


def _cell_of(element: etree._Element) -> etree._Element | None:
    """The table cell, or the list of tracked changes, that a paragraph is in."""
    # A comment in a cell has a text of its own.
    above = next(element.iterancestors(*_AROUND), None)
    return None if above is None or name_of(above) == "annotation" else above


def _has_text(cell: etree._Element) -> bool:
    """Whether the text of a cell is its value, and not the display of a number or a formula."""
    return (
        name_of(cell) != "tracked-changes"
        and cell.get(f"{_TABLE}formula") is None
        and cell.get(f"{_OFFICE}value-type", "string") == "string"
    )


def _invisible_styles(root: etree._Element) -> Iterator[str]:
    """Names of automatic styles that record only revisions or languages, not formatting."""
    for style in root.iter(f"{_STYLE}style"):
        properties = [etree.QName(key).localname for child in style for key in child.attrib]
        if (
            style.get(f"{_STYLE}family") == "text"
            and style.get(f"{_STYLE}parent-style-name") is None
            and all(name.endswith(_UNSEEN_ATTRIBUTES) for name in properties)
        ):
            yield style.get(f"{_STYLE}name", "")
