"""Document that is a zip archive of parts; each part is opened as a document of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from service.documents.containers.archive import Archive
from service.documents.types import Document

OpenPart = Callable[[bytes], Document]


class ZippedDocument:
    """Opens its parts again in each call of ``replaced``, and keeps no parsed part in between."""

    def __init__(self, archive: Archive, media_type: str, parts: Mapping[str, OpenPart]) -> None:
        """``parts`` has the entries with text, in reading order. Other entries are copied."""
        self._archive = archive
        self.media_type = media_type
        self._parts = parts
        self.texts = tuple(
            text for name, opener in parts.items() for text in opener(archive.read(name)).texts
        )

    def replaced(self, translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        rewritten: dict[str, bytes] = {}
        for name, opener in self._parts.items():
            part = opener(self._archive.read(name))
            rewritten[name] = part.replaced(list(islice(remaining, len(part.texts))))
        return self._archive.rewritten(rewritten)
