"""A document that somebody handed in, and how many there may be. Knows no callers and no bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

State = Literal["queued", "translating", "done", "error"]


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Bytes are those of files, as they are uploaded and as their translations are kept."""

    document_bytes: int = 10 * 2**20
    running: int = 2
    """Documents translated at once."""
    waiting: int = 100
    """Documents that have come and are not translated yet."""
    waiting_bytes: int = 64 * 2**20
    """Of all of those, or of their texts where these are more; both are held in memory."""
    kept_bytes: int = 512 * 2**20
    """Of all translations that nobody has fetched, and of the documents that wait."""
    kept_seconds: float = 3600.0
    """How long a translation waits for whoever fetches it."""
    seconds: float = 1800.0
    """How long translating a document may take; waiting for its turn is not counted."""


@dataclass(eq=False, slots=True)
class DocumentJob:
    """Others read it; only ``DocumentJobs`` writes it."""

    id: str
    """Unguessable; the translation can be fetched by it."""
    key: str = field(repr=False)
    filename: str
    """What whoever fetches the translation may call it: the client's own name, without a path."""
    media_type: str
    characters: int
    """That are translated and charged; markup is not."""
    size: int
    """Bytes: of the document and, once that is done, of its translation."""
    path: Path
    """Where the translation is, once it is done."""
    state: State = "queued"
    error: Exception | None = None
    """Why the state is ``error``."""
    progress: float = 0.0
    """How much is translated, from 0 to 1."""
    changed: float = 0.0
    """When the state last changed, in seconds of the monotonic clock."""

    @property
    def unfinished(self) -> bool:
        return self.state in ("queued", "translating")

    @property
    def name(self) -> str:
        """The id with the extension of the file: what a link to the translation may end with."""
        return self.id + PurePosixPath(self.filename).suffix.lower()
