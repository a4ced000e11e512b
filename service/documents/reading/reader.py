"""Reads and writes documents in helper processes, with limits of time and memory.

A large document occupies the interpreter for seconds, and a malicious one exhausts memory. A
failure in a helper process affects only its own document.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from pydantic import ValidationError

from service.documents.opening import extension_of
from service.documents.reading import worker
from service.documents.types import (
    UNKNOWN,
    BrokenDocument,
    DocumentFailed,
    DocumentTooDemanding,
    Languages,
    MarkupLost,
)
from service.helpers.helper import (
    HelperFailed,
    HelperKilled,
    HelperOutOfMemory,
    Helpers,
    HelperTooSlow,
)

logger = logging.getLogger(__name__)

_ANSWER_BYTES = 2 * worker.MOST_BYTES_OF_TEXTS


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    at_once: int = 2
    """Number of documents that are read or written at once."""
    seconds: float = 120.0
    """Time limit to read or write one document of any size."""
    seconds_per_megabyte: float = 20.0
    """Time limit for each megabyte of the file, and for the first one begun. Markdown can be
    written so that parsing it takes time in proportion to its square."""
    memory_bytes: int = 768 << 20
    """Memory limit for one document. A Word file with 30 MB of unpacked text takes 560 MB."""


@dataclass(frozen=True, slots=True)
class ReadDocument(worker.Outline):
    """A document and its extracted texts."""

    filename: str
    content: bytes = field(repr=False)
    batches: tuple[bytes, ...] = field(repr=False)
    """Serialised texts, see ``service.documents.batches``."""
    caller: str | None = field(default=None, repr=False)
    languages: Languages = UNKNOWN

    @property
    def size(self) -> int:
        """Larger of the bytes of the file, which may be compressed, and of its texts."""
        return max(len(self.content), sum(map(len, self.batches)))


class DocumentReader:
    """Pool of document readers. Belongs to one event loop. Cancelling a call ends its work."""

    def __init__(self, limits: ReadingLimits = ReadingLimits()) -> None:
        self._limits = limits
        self._helpers = Helpers(
            worker.__name__,
            count=limits.at_once,
            seconds=limits.seconds,
            answer_bytes=_ANSWER_BYTES,
            memory_bytes=limits.memory_bytes,
        )

    async def read(
        self,
        filename: str,
        content: bytes,
        caller: str | None = None,
        languages: Languages = UNKNOWN,
    ) -> ReadDocument:
        """Read a document in the format of its extension, to be translated between languages.

        ``caller`` never occupies all processes; ``None`` is unknown and may.

        Raises ``UnsupportedDocument`` for an unknown extension, ``BrokenDocument`` if the content
        is not in that format, ``DocumentTooDemanding`` and ``DocumentFailed``.
        """
        name = "document" + extension_of(filename)
        outcome, *parts = await self._ask(
            caller, worker.READ, name.encode(), worker.LANGUAGES.dump_json(languages), content
        )
        if outcome == worker.BROKEN:
            raise BrokenDocument(b"".join(parts).decode(errors="replace"))
        try:
            outline = worker.OUTLINE.validate_json(parts[0])
        except (IndexError, ValidationError) as error:
            logger.error("what reads documents gave no outline")
            raise DocumentFailed from error
        return ReadDocument(
            **asdict(outline),
            filename=filename,
            content=content,
            batches=tuple(parts[1:]),
            caller=caller,
            languages=languages,
        )

    async def write(self, document: ReadDocument, translated: Sequence[bytes]) -> bytes:
        """The file with its texts replaced; ``translated`` has one serialised list per batch.

        Unchanged texts keep their bytes. Raises ``MarkupLost``, ``DocumentTooDemanding`` and
        ``DocumentFailed``.
        """
        name = "document" + extension_of(document.filename)
        outcome, *parts = await self._ask(
            document.caller,
            worker.WRITE,
            name.encode(),
            worker.LANGUAGES.dump_json(document.languages),
            document.content,
            *translated,
        )
        if outcome == worker.LOST:
            raise MarkupLost
        if outcome != worker.DONE:
            logger.error("what reads documents could not read one again")
            raise DocumentFailed
        return b"".join(parts)

    async def close(self) -> None:
        await self._helpers.close()

    async def _ask(
        self,
        caller: str | None,
        what: bytes,
        name: bytes,
        languages: bytes,
        content: bytes,
        *translated: bytes,
    ) -> list[bytes]:
        seconds = self._limits.seconds_per_megabyte * (1 + len(content) / 2**20)
        parts = what, name, languages, content, *translated
        try:
            try:
                return await self._helpers.ask(*parts, caller=caller, seconds=seconds)
            except HelperKilled as error:
                logger.warning("a document is read or written again: %s", error)
                return await self._helpers.ask(*parts, caller=caller, seconds=seconds)
        except (HelperTooSlow, HelperOutOfMemory) as error:
            logger.warning("a document was given up: %s", error)
            raise DocumentTooDemanding from error
        except HelperFailed as error:
            logger.error("a document could not be read or written: %s", error)
            raise DocumentFailed from error
