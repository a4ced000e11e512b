"""Files of text: what is said in them, out for translation and back in its place.

Knows formats of files. Knows no HTTP, no models and nothing of how texts are translated.
"""

from __future__ import annotations

from service.documents.opening import SUPPORTED, open_document
from service.documents.reader import DocumentReader, ReadDocument, Reader, ReadingLimits
from service.documents.translating import translate_document
from service.documents.types import (
    BrokenDocument,
    Document,
    DocumentError,
    DocumentFailed,
    DocumentTooDemanding,
    MarkedSource,
    MarkupLost,
    UnsupportedDocument,
    characters,
)

__all__ = [
    "SUPPORTED",
    "BrokenDocument",
    "Document",
    "DocumentError",
    "DocumentFailed",
    "DocumentReader",
    "DocumentTooDemanding",
    "MarkedSource",
    "MarkupLost",
    "ReadDocument",
    "Reader",
    "ReadingLimits",
    "UnsupportedDocument",
    "characters",
    "open_document",
    "translate_document",
]
