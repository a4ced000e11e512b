"""Opens Office Open XML files: .docx, .pptx and .xlsx.

Parts without text, such as pictures, styles and settings, are never parsed. Formulas, numbers,
field codes, names of sheets and of columns stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lxml import etree

from service.documents.containers.archive import Archive
from service.documents.containers.xml_document import FindUnits, XmlDocument, parsed
from service.documents.containers.zipped import ZippedDocument
from service.documents.fragments.paragraph import Paragraph
from service.documents.fragments.runs import RUNS
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_CONTENT_TYPES = "[Content_Types].xml"
_DRAWN = (".chart+xml", ".diagramData+xml", ".diagramDrawing+xml")
"""Parts of all three formats: a diagram is stored with its drawing, which has the same texts."""
_NAMES_OF_COLUMNS = {".table+xml": "{*}tableColumn", ".pivotCacheDefinition+xml": "{*}cacheField"}
"""Kinds of parts that refer to columns by the text of a header cell, and the elements that do."""
_MAINS = ("http://schemas.openxmlformats.org/", "http://purl.oclc.org/ooxml/")
_PARAGRAPHS = tuple(
    f"{{{main}{name}"
    for main, years in zip(_MAINS, ("2006/", ""), strict=True)
    for name in (
        f"wordprocessingml/{years}main}}p",
        f"drawingml/{years}main}}p",
        *(f"spreadsheetml/{years}main}}{text}" for text in ("si", "is", "text")),
    )
)


@dataclass(frozen=True, slots=True)
class _Format:
    extension: str
    program: str
    media_type: str
    main: str
    """End of the content type of the part that makes a file one of this format."""
    spoken: tuple[str, ...]
    """Ends of the content types of parts with text."""


_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCX = _Format(
    ".docx",
    "Word",
    f"{_OFFICE}wordprocessingml.document",
    ".document.main+xml",
    (".document.main+xml", ".header+xml", ".footer+xml", ".footnotes+xml", ".endnotes+xml"),
)
_PPTX = _Format(
    ".pptx",
    "PowerPoint",
    f"{_OFFICE}presentationml.presentation",
    ".presentation.main+xml",
    (".slide+xml", ".notesSlide+xml"),
)
_XLSX = _Format(
    ".xlsx",
    "Excel",
    f"{_OFFICE}spreadsheetml.sheet",
    ".sheet.main+xml",
    (".sharedStrings+xml", ".worksheet+xml", ".comments+xml", ".drawing+xml"),
)


def _open(office: _Format, content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file; raises ``BrokenDocument`` if it is no zip, too large, or of another program."""
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise BrokenDocument(
            f"this is a {office.extension[:-1]} file or has a password; save it as "
            f"{office.extension} without a password"
        )
    archive = Archive(content, office.extension)
    types = _content_types(archive, office)
    find = _finder(archive, types)
    parts = [part for part, kind in types.items() if kind.endswith((*office.spoken, *_DRAWN))]
    for part in parts:
        if part not in archive:
            raise BrokenDocument(f"the document lacks its part {part[:80]}")
    parts.sort(key=lambda part: (not types[part].endswith(office.main), _in_order(part)))
    return ZippedDocument(
        archive,
        office.media_type,
        {part: partial(XmlDocument, name=part, find=find) for part in parts},
    )


open_docx = partial(_open, _DOCX)
open_pptx = partial(_open, _PPTX)
open_xlsx = partial(_open, _XLSX)


def _content_types(archive: Archive, office: _Format) -> dict[str, str]:
    """The content type of each part: its own, otherwise that of its extension."""
    no_such_file = f"this zip file is not a {office.extension}: it has no"
    if _CONTENT_TYPES not in archive:
        raise BrokenDocument(f"{no_such_file} list of content types")
    root = parsed(archive.read(_CONTENT_TYPES), _CONTENT_TYPES)
    of_extension = {
        entry.get("Extension", "").lower(): entry.get("ContentType", "")
        for entry in root.iter("{*}Default")
    }
    types = {part: of_extension.get(part.rpartition(".")[2].lower(), "") for part in archive}
    # Names of parts are equal if they differ in case only (ECMA-376, part 2).
    names = {part.lower(): part for part in archive}
    for entry in root.iter("{*}Override"):
        part = entry.get("PartName", "").lstrip("/")
        types[names.get(part.lower(), part)] = entry.get("ContentType", "")
    if not any(kind.endswith(office.main) for kind in types.values()):
        raise BrokenDocument(f"{no_such_file} document of {office.program} in it")
    return types


def _in_order(part: str) -> list[tuple[bool, int, str]]:
    """Sorts ``slide10`` after ``slide9``."""
    return [
        (t.isdecimal(), int(t) if t.isdecimal() else 0, t) for t in re.split(r"(\d{1,9})", part)
    ]


def _finder(archive: Archive, types: dict[str, str]) -> FindUnits:
    names = frozenset(_names_of_columns(archive, types))

    def find(root: etree._Element) -> Iterator[Paragraph]:
        for element in root.iter(*_PARAGRAPHS):
            if not names or "".join(element.itertext()) not in names:
                yield Paragraph(element, RUNS)

    return find


def _names_of_columns(archive: Archive, types: dict[str, str]) -> Iterator[str]:
    """Texts of header cells: Excel repairs a file in which a table names other columns."""
    for part, kind in types.items():
        for end, element in _NAMES_OF_COLUMNS.items():
            if kind.endswith(end) and part in archive:
                for column in parsed(archive.read(part), part).iter(element):
                    yield column.get("name", "").replace("_x000a_", "\n")
