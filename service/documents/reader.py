"""Has documents read and written by processes of their own.

A large document keeps an interpreter for seconds, and one made for that takes memory until there is
none. So it happens elsewhere, two at a time, within bounds; what goes wrong there is that
document's misfortune alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import ValidationError

from service.documents import worker
from service.documents.opening import extension_of
from service.documents.types import (
    BrokenDocument,
    DocumentFailed,
    DocumentTooDemanding,
    MarkupLost,
)
from service.helpers.helper import HelperFailed, HelperOutOfMemory, Helpers, HelperTooSlow

logger = logging.getLogger(__name__)

_ANSWER_BYTES = 2 * worker.MOST_BYTES_OF_TEXTS


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    at_once: int = 2
    """Documents that are read or written at once."""
    seconds: float = 120.0
    """To read or to write one."""
    memory_bytes: int = 768 << 20
    """For one. A Word file of 30 MB unpacked, all of it text, takes 560 MB."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A file, and what is said in it."""

    filename: str
    content: bytes = field(repr=False)
    media_type: str
    """As HTTP and e-mail name the format."""
    characters: int
    """That are translated; markup is not counted."""
    length: int
    """Characters of all texts with their markup."""
    said: str = field(repr=False)
    """How it begins, without markup: enough to tell its language."""
    batches: tuple[bytes, ...] = field(repr=False)
    """Its texts, see ``service.documents.batches``."""

    @property
    def size(self) -> int:
        """Bytes of the file, or of its texts where those are larger: a file may be packed."""
        return max(len(self.content), sum(map(len, self.batches)))


class Reader(Protocol):
    """See ``DocumentReader``."""

    async def read(self, filename: str, content: bytes) -> ReadDocument: ...

    async def write(self, document: ReadDocument, translated: Sequence[bytes]) -> bytes: ...


class DocumentReader:
    """Belongs to one event loop. Cancelling a call ends the work."""

    def __init__(self, limits: ReadingLimits = ReadingLimits()) -> None:
        self._helpers = Helpers(
            worker.__name__,
            count=limits.at_once,
            seconds=limits.seconds,
            answer_bytes=_ANSWER_BYTES,
            memory_bytes=limits.memory_bytes,
        )

    async def read(self, filename: str, content: bytes) -> ReadDocument:
        """Read a file as the format that its name's extension stands for.

        Raises ``UnsupportedDocument`` for any other, ``BrokenDocument`` for one that is not what
        its name says, ``DocumentTooDemanding`` and ``DocumentFailed``.
        """
        name = "document" + extension_of(filename)
        outcome, *parts = await self._ask(worker.READ, name.encode(), content)
        if outcome == worker.BROKEN:
            raise BrokenDocument(b"".join(parts).decode(errors="replace"))
        try:
            outline = worker.OUTLINE.validate_json(parts[0])
        except (IndexError, ValidationError) as error:
            logger.error("what reads documents gave no outline")
            raise DocumentFailed from error
        return ReadDocument(
            filename,
            content,
            outline.media_type,
            outline.characters,
            outline.length,
            outline.said,
            tuple(parts[1:]),
        )

    async def write(self, document: ReadDocument, translated: Sequence[bytes]) -> bytes:
        """The file with translations, one list for each batch, and with all else as it was.

        What comes back as it was sent stays as it was written. Raises ``MarkupLost``,
        ``DocumentTooDemanding`` and ``DocumentFailed``.
        """
        name = "document" + extension_of(document.filename)
        outcome, *parts = await self._ask(
            worker.WRITE, name.encode(), document.content, *translated
        )
        if outcome == worker.LOST:
            raise MarkupLost
        if outcome != worker.DONE:
            logger.error("what reads documents could not read one again")
            raise DocumentFailed
        return b"".join(parts)

    async def close(self) -> None:
        await self._helpers.close()

    async def _ask(self, *parts: bytes) -> list[bytes]:
        try:
            return await self._helpers.ask(*parts)
        except (HelperTooSlow, HelperOutOfMemory) as error:
            logger.warning("a document was given up: %s", error)
            raise DocumentTooDemanding from error
        except HelperFailed as error:
            logger.error("a document could not be read or written: %s", error)
            raise DocumentFailed from error
