"""Document jobs: their state, limits and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["queued", "translating", "done", "error"]


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits on document jobs; bytes count uploaded files and kept translations."""

    document_bytes: int = 10 * 2**20
    running: int = 3
    """Documents that a replica translates at once, all but one of them of one caller."""
    waiting: int = 100
    """Documents accepted and not yet translated."""
    waiting_bytes: int = 64 * 2**20
    """Size of all waiting documents, or of their texts if larger."""
    kept_bytes: int = 512 * 2**20
    """Size of all unfetched translations and waiting documents."""
    kept: int = 1_000
    """Unfetched translations, failed and waiting documents."""
    kept_seconds: float = 3600.0
    """Time until an unfetched translation is removed; earlier where its space is needed."""
    share: float = 0.5
    """Share of the waiting and kept documents that may be those of one caller."""
    seconds: float = 1800.0
    """Maximum duration of a translation, without its time in the queue."""


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """State of one document translation when it was read from the stored state."""

    id: str
    """Unguessable. The translation can be fetched by it alone if the job is ``linked``."""
    filename: str
    """Name suggested for the translation: the client's file name without its path."""
    content_type: str
    """Media type of the translation, once it is done, with its charset if that is UTF-8."""
    characters: int
    """Translated and charged characters, without markup."""
    size: int
    """Bytes: of the document and, once that is done, of its translation."""
    state: State
    error: str | None
    """Why the state is ``error``, for the caller."""
    progress: float
    """How much is translated, from 0 to 1."""
    changed: float
    """Time of the last change of the state, in seconds since 1970."""
    key: str = field(default="", repr=False)
    """The key that the client needs; only when the job is accepted."""

    @property
    def unfinished(self) -> bool:
        return self.state in ("queued", "translating")


class DocumentJobError(Exception):
    """Base of the refusals of document jobs."""


class DocumentTooLarge(DocumentJobError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the document is too large; at most {limit} bytes are translated")
        self.limit = limit


class DocumentNotFound(DocumentJobError):
    """No such document, or its key is wrong, or its translation has been removed."""

    def __init__(self) -> None:
        super().__init__("there is no such document; translations are removed after some time")


class DocumentNotReady(DocumentJobError):
    """The document is still being translated; ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int = 5) -> None:
        super().__init__("the document is still being translated; ask for its status")
        self.retry_after = retry_after


class EqualLanguages(DocumentJobError):
    """The document is in the language that it should be translated to."""

    def __init__(self) -> None:
        super().__init__("Source and target language are equal.")


class DocumentsFull(DocumentJobError):
    """Too many documents wait to be translated or fetched; ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int = 30) -> None:
        super().__init__("too many documents are waiting; try again shortly")
        self.retry_after = retry_after
