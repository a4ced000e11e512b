"""Which format a file is in: its extension says so."""

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
"""Extensions of files, each with its dot."""


def extension_of(filename: str) -> str:
    """In lower case, with its dot; raises ``UnsupportedDocument`` for those that are not read."""
    extension = PurePosixPath(filename.strip()).suffix.lower()
    if extension not in _FORMATS:
        raise UnsupportedDocument(extension, SUPPORTED)
    return extension


def open_document(filename: str, content: bytes) -> Document:
    """Read a file as the format that its name's extension stands for.

    Raises ``UnsupportedDocument`` for any other, and ``BrokenDocument`` for one that is not what
    its name says.
    """
    return _FORMATS[extension_of(filename)](content)
