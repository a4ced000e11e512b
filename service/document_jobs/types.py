"""Document jobs: their state, limits and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

State = Literal["queued", "translating", "done", "error"]


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits on document jobs; bytes count uploaded files and kept translations."""

    document_bytes: int = 10 * 2**20
    running: int = 3
    """Documents translated at once, all but one of them of one caller."""
    waiting: int = 100
    """Documents accepted and not yet translated."""
    waiting_bytes: int = 64 * 2**20
    """Size of all waiting documents, or of their texts if larger; both are held in memory."""
    kept_bytes: int = 512 * 2**20
    """Size of all unfetched translations and waiting documents."""
    kept_seconds: float = 3600.0
    """Time until an unfetched translation is removed; earlier where its space is needed."""
    share: float = 0.5
    """Share of the waiting and kept documents that may be those of one caller."""
    seconds: float = 1800.0
    """Maximum duration of a translation, without its time in the queue."""


@dataclass(eq=False, slots=True)
class DocumentJob:
    """State of one document translation; written only by ``DocumentJobs``."""

    id: str
    """Unguessable. The translation can be fetched by it alone if the job is ``linked``."""
    key: str = field(repr=False)
    filename: str
    """Name suggested for the translation: the client's file name without its path."""
    media_type: str
    characters: int
    """Translated and charged characters, without markup."""
    size: int
    """Bytes: of the document and, once that is done, of its translation."""
    path: Path
    """Path of the document, and of its translation once it is done."""
    content_type: str = ""
    """``media_type`` of the translation, once it is done, with its charset if that is UTF-8."""
    state: State = "queued"
    error: Exception | None = None
    """Why the state is ``error``."""
    progress: float = 0.0
    """How much is translated, from 0 to 1."""
    linked: bool = False
    """Whether the translation is fetched by a link, and not by the id and the key."""
    scope: str = field(default="", repr=False)
    """The caller that alone may ask for the job by its key, where API keys are required."""
    caller: str | None = field(default=None, repr=False)
    """Caller whose share of the disk space is used."""
    changed: float = 0.0
    """Time of the last change of the state, in seconds of the monotonic clock."""

    @property
    def unfinished(self) -> bool:
        return self.state in ("queued", "translating")

    @property
    def name(self) -> str:
        """The id with the file's extension, for links to the translation."""
        return self.id + PurePosixPath(self.filename).suffix.lower()


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
