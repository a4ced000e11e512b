"""What every format offers, and what can be wrong with a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.translation.markup import PLAIN, Markup

_LONGEST_SHOWN = 40
"""Characters of an extension that a message repeats."""


class DocumentError(Exception):
    """Base of what is said about a file."""


class UnsupportedDocument(DocumentError):
    """A file whose extension is none of those that can be translated."""

    def __init__(self, extension: str, supported: Iterable[str]) -> None:
        self.extension = extension
        self.supported = tuple(supported)
        shown = extension[:_LONGEST_SHOWN] or "without an extension"
        super().__init__(
            f"files {shown} are not supported; supported are {', '.join(self.supported)}"
        )


class BrokenDocument(DocumentError):
    """A file that is not what its extension says; the message says in which way."""


class MarkupLost(DocumentError):
    """A translation that does not have the tags of its source, each once and nested."""

    def __init__(self) -> None:
        super().__init__("a translation came back without the tags of its source")


class DocumentTooDemanding(DocumentError):
    """A file that takes more time or memory to read or write than there is for one."""

    def __init__(self) -> None:
        super().__init__(
            "the document takes more time or memory than there is for one; send it in parts"
        )


class DocumentFailed(DocumentError):
    """The process that read or wrote the document ended, or met a bug of ours."""

    def __init__(self) -> None:
        super().__init__("the document could not be read or written; the server's log has it")


@dataclass(frozen=True, slots=True)
class MarkedSource:
    """A text of a document, and the markup that it is to be translated with."""

    text: str
    markup: Markup = PLAIN
    characters: int = -1
    """Without markup, as they are billed; by default all of them."""

    def __post_init__(self) -> None:
        if self.characters < 0:
            object.__setattr__(self, "characters", len(self.text))


class Document(Protocol):
    """An opened file. Opening and replacing compute; neither waits for anything."""

    @property
    def media_type(self) -> str:
        """As HTTP and e-mail name the format."""
        ...

    @property
    def texts(self) -> tuple[MarkedSource, ...]:
        """What is to be translated, in the order of reading; nothing if nothing is said."""
        ...

    def replaced(self, translations: Sequence[str]) -> bytes:
        """The file with ``translations``, one for each text, and with all else as it was.

        What comes back as it was sent stays as it was written. Raises ``MarkupLost``.
        """
        ...


def characters(document: Document) -> int:
    """How many characters of a document are translated, markup not counted."""
    return sum(text.characters for text in document.texts)
