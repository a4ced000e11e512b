"""Errors of document jobs: too large, unknown, not ready, queue full."""

from __future__ import annotations


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


class DocumentsFull(DocumentJobError):
    """Too many documents wait to be translated or fetched; ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int = 30) -> None:
        super().__init__("too many documents are waiting; try again shortly")
        self.retry_after = retry_after
