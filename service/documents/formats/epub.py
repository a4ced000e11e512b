"""Opens books in .epub: their pages as HTML, their contents list, title and language."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from lxml import etree

from service.documents.containers.archive import Archive
from service.documents.containers.xml_document import XmlDocument, parsed
from service.documents.containers.zipped import OpenPart, ZippedDocument
from service.documents.formats.html import open_html
from service.documents.fragments.mixed import Mixed
from service.documents.fragments.paragraph import Paragraph
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_CORE = "{http://purl.org/dc/elements/1.1/}"
_PAGES = ("application/xhtml+xml", "text/html")
_CONTENTS_LIST = "application/x-dtbncx+xml"
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Obfuscation of fonts, which leaves texts readable."""
_SELF_CLOSED = re.compile(rb"<(script|style|title|textarea|iframe)((?:\s[^<>]*)?)/>")
_TEXT = Mixed(squeezes=True)


def open_epub(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a book; raises ``BrokenDocument`` if it is no zip, encrypted, or lacks its parts."""
    archive = Archive(content, ".epub")
    if _CONTAINER not in archive:
        raise BrokenDocument(f"this zip file is not an .epub: it has no {_CONTAINER}")
    if _ENCRYPTION in archive:
        methods = parsed(archive.read(_ENCRYPTION), _ENCRYPTION).iter("{*}EncryptionMethod")
        if any(method.get("Algorithm") not in _FONTS for method in methods):
            raise BrokenDocument("the book is protected against copying; it cannot be read")
    parts: dict[str, OpenPart] = {}
    for rootfile in parsed(archive.read(_CONTAINER), _CONTAINER).iter("{*}rootfile"):
        package = rootfile.get("full-path", "")
        parts |= _parts(archive, package, languages)
    if not parts:
        raise BrokenDocument(f"this zip file is not an .epub: {_CONTAINER} names no package")
    return ZippedDocument(archive, "application/epub+zip", parts)


def _parts(archive: Archive, package: str, languages: Languages) -> dict[str, OpenPart]:
    """The package and its parts with text, pages in reading order."""
    if package not in archive:
        raise BrokenDocument(f"the book lacks its part {package[:80]}")
    root = parsed(archive.read(package), package)
    finish = partial(_state_language, languages.target)
    parts: dict[str, OpenPart] = {
        package: partial(XmlDocument, name=package, find=_titles, finish=finish)
    }
    items = {item.get("id"): item for item in root.iter("{*}item")}
    read = [items.pop(ref.get("idref"), None) for ref in root.iter("{*}itemref")]
    for item in [*(item for item in read if item is not None), *items.values()]:
        name = posixpath.normpath(
            posixpath.join(posixpath.dirname(package), unquote(item.get("href", "")))
        )
        kind = item.get("media-type", "")
        if kind not in (*_PAGES, _CONTENTS_LIST):
            continue
        if name not in archive:
            raise BrokenDocument(f"the book lacks its part {name[:80]}")
        if kind in _PAGES:
            parts[name] = partial(_open_page, languages=languages)
        else:
            parts[name] = partial(XmlDocument, name=name, find=_labels)
    return parts


def _open_page(content: bytes, languages: Languages) -> Document:
    # HTML reads these tags as the begin of text that has no end.
    return open_html(_SELF_CLOSED.sub(rb"<\1\2></\1>", content), languages)


def _titles(root: etree._Element) -> Iterator[Paragraph]:
    return (Paragraph(title, _TEXT) for title in root.iter(f"{_CORE}title"))


def _labels(root: etree._Element) -> Iterator[Paragraph]:
    return (Paragraph(text, _TEXT) for text in root.iter("{*}text"))


def _state_language(language: str, root: etree._Element) -> bool:
    changed = False
    for stated in root.iter(f"{_CORE}language") if language else ():
        changed |= stated.text != language
        stated.text = language
    return changed
