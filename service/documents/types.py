"""Interface of document formats, their text type and their exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.text.markup import PLAIN, Markup

_LONGEST_SHOWN = 40
"""Maximum length of an extension in an error message."""


class DocumentError(Exception):
    """Base of all document errors."""


class UnsupportedDocument(DocumentError):
    """The file's extension is not supported."""

    def __init__(self, extension: str, supported: Iterable[str]) -> None:
        self.extension = extension
        self.supported = tuple(supported)
        shown = extension[:_LONGEST_SHOWN] or "without an extension"
        super().__init__(
            f"files {shown} are not supported; supported are {', '.join(self.supported)}"
        )


class BrokenDocument(DocumentError):
    """The content is not in the format of its extension; the message says why."""


class MarkupLost(DocumentError):
    """A translation lacks the tags of its source, or does not nest them properly."""

    def __init__(self) -> None:
        super().__init__("a translation came back without the tags of its source")


class DocumentTooDemanding(DocumentError):
    """Reading or writing the document exceeds the limits of time or memory."""

    def __init__(self) -> None:
        super().__init__(
            "the document takes more time or memory than there is for one; send it in parts"
        )


class DocumentFailed(DocumentError):
    """The process that read or wrote the document died, or raised an exception."""

    def __init__(self) -> None:
        super().__init__("the document could not be read or written; the server's log has it")


@dataclass(frozen=True, slots=True)
class MarkedSource:
    """A text of a document, and its markup."""

    text: str
    markup: Markup = PLAIN
    characters: int = -1
    """Billed characters, without markup; by default all of them."""

    def __post_init__(self) -> None:
        if self.characters < 0:
            object.__setattr__(self, "characters", len(self.text))


@dataclass(frozen=True, slots=True)
class Languages:
    """Language codes of a translation; empty where one is not known."""

    source: str = ""
    """Decides the encoding of files that name none, and the texts of a translation memory."""
    target: str = ""
    """Written into files that name their language."""


UNKNOWN = Languages()


class Document(Protocol):
    """An opened document. All methods are CPU-bound and synchronous."""

    @property
    def media_type(self) -> str:
        """MIME type."""
        ...

    @property
    def texts(self) -> tuple[MarkedSource, ...]:
        """Texts to translate, in reading order; may be empty."""
        ...

    def replaced(self, translations: Sequence[str]) -> bytes:
        """The file with its texts replaced by ``translations``, one for each text.

        Unchanged texts keep their bytes. Raises ``MarkupLost``.
        """
        ...


def characters(document: Document) -> int:
    """Number of characters to translate in a document, without markup."""
    return sum(text.characters for text in document.texts)
