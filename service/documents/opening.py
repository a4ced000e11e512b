"""Selects the document format of a file by its extension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from types import MappingProxyType

from service.documents.docx import open_docx
from service.documents.html import open_html
from service.documents.markdown import open_markdown
from service.documents.srt import open_srt
from service.documents.text import open_text
from service.documents.types import Document, UnsupportedDocument

_FORMATS: MappingProxyType[str, Callable[[bytes], Document]] = MappingProxyType(
    {
        ".txt": open_text,
        ".srt": open_srt,
        ".html": open_html,
        ".htm": open_html,
        ".md": open_markdown,
        ".docx": open_docx,
    }
)

SUPPORTED: tuple[str, ...] = tuple(_FORMATS)
"""Supported file extensions, each with its dot."""


def extension_of(filename: str) -> str:
    """The extension in lower case, with its dot; raises ``UnsupportedDocument``."""
    extension = PurePosixPath(filename.strip()).suffix.lower()
    if extension not in _FORMATS:
        raise UnsupportedDocument(extension, SUPPORTED)
    return extension


def open_document(filename: str, content: bytes) -> Document:
    """Open a document in the format of its extension.

    Raises ``UnsupportedDocument`` for an unknown extension, and ``BrokenDocument`` if the content
    is not in that format.
    """
    return _FORMATS[extension_of(filename)](content)
