"""Document formats: extract texts, insert their translations.

Independent of HTTP, of models and of the translation of texts.
"""

from __future__ import annotations

from service.documents.opening import SUPPORTED, open_document
from service.documents.reader import DocumentReader, ReadDocument, ReadingLimits
from service.documents.translating import translate_document
from service.documents.types import (
    BrokenDocument,
    Document,
    DocumentError,
    DocumentFailed,
    DocumentTooDemanding,
    Languages,
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
    "Languages",
    "MarkedSource",
    "MarkupLost",
    "ReadDocument",
    "ReadingLimits",
    "UnsupportedDocument",
    "characters",
    "open_document",
    "translate_document",
]
