"""Word test documents, made with python-docx or directly from XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any, Protocol

import docx
from docx.document import Document as WordDocument
from docx.oxml import parse_xml
from lxml import etree

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
NAMESPACES = (
    f'xmlns:w="{W}" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)


class Savable(Protocol):
    def save(self, file: Any, /) -> None: ...


def saved_by(document: Savable) -> bytes:
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def saved(document: WordDocument) -> bytes:
    return saved_by(document)


def zip_of(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return stream.getvalue()


def with_paragraph(inside: str) -> bytes:
    """A document with one paragraph with the given inner XML."""
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:p {NAMESPACES}>{inside}</w:p>"))
    return saved(document)


def entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def with_entry(content: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for known, data in ({name: b""} | entries(content)).items():
            file.writestr(known, change(data) if known == name else data)
    return stream.getvalue()


def inside(content: bytes, number: int = 0) -> str:
    """Inner XML of a paragraph of the body, without namespace declarations."""
    body = etree.fromstring(entries(content)["word/document.xml"])[0]
    paragraphs = [child for child in body if child.tag == f"{{{W}}}p"]
    written = "".join(etree.tostring(child, encoding="unicode") for child in paragraphs[number])
    for declaration in NAMESPACES.split() + [
        f'xmlns:{prefix}="{uri}"' for prefix, uri in body.nsmap.items()
    ]:
        written = written.replace(" " + declaration, "")
    return written.replace(' xml:space="preserve"', "")
