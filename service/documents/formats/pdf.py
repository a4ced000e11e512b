"""Reads and writes PDF: paragraphs are translated and set into their boxes.

Pictures, graphics, forms, links and text without letters stay as they are. A page without text gets
a note. The libraries for PDF are imported when a PDF is opened, because no other format needs them.
"""

from __future__ import annotations

from service.documents.types import UNKNOWN, Document, Languages


def open_pdf(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file; raises ``BrokenDocument`` if it is damaged, encrypted, too large or scanned."""
    from service.documents.pages.document import PdfDocument

    return PdfDocument(content, languages)
