"""Selects the document format of a file by its extension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from types import MappingProxyType

from service.documents.formats.android import open_android
from service.documents.formats.apple_strings import open_strings
from service.documents.formats.bilingual import open_tmx, open_xliff
from service.documents.formats.captions import open_srt, open_vtt
from service.documents.formats.csv_table import open_csv
from service.documents.formats.epub import open_epub
from service.documents.formats.fluent_messages import open_ftl
from service.documents.formats.gettext_catalogue import open_po
from service.documents.formats.html import open_html
from service.documents.formats.json_messages import open_arb, open_json
from service.documents.formats.markdown import open_markdown
from service.documents.formats.ooxml import open_docx, open_pptx, open_xlsx
from service.documents.formats.opendocument import open_odp, open_ods, open_odt
from service.documents.formats.pdf import open_pdf
from service.documents.formats.properties import open_properties
from service.documents.formats.rich_text import open_rtf
from service.documents.formats.string_catalogue import open_xcstrings
from service.documents.formats.text import open_text
from service.documents.formats.yaml_messages import open_yaml
from service.documents.types import UNKNOWN, Document, Languages, UnsupportedDocument

_FORMATS: MappingProxyType[str, Callable[[bytes, Languages], Document]] = MappingProxyType(
    {
        ".txt": open_text,
        ".srt": open_srt,
        ".vtt": open_vtt,
        ".html": open_html,
        ".htm": open_html,
        ".md": open_markdown,
        ".docx": open_docx,
        ".pptx": open_pptx,
        ".xlsx": open_xlsx,
        ".odt": open_odt,
        ".ods": open_ods,
        ".odp": open_odp,
        ".rtf": open_rtf,
        ".epub": open_epub,
        ".pdf": open_pdf,
        ".po": open_po,
        ".xliff": open_xliff,
        ".xlf": open_xliff,
        ".tmx": open_tmx,
        ".json": open_json,
        ".arb": open_arb,
        ".yaml": open_yaml,
        ".yml": open_yaml,
        ".properties": open_properties,
        ".strings": open_strings,
        ".xcstrings": open_xcstrings,
        ".xml": open_android,
        ".ftl": open_ftl,
        ".csv": open_csv,
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


def open_document(filename: str, content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a document in the format of its extension, to be translated between languages.

    Raises ``UnsupportedDocument`` for an unknown extension, and ``BrokenDocument`` if the content
    is not in that format.
    """
    return _FORMATS[extension_of(filename)](content, languages)
