"""Text document whose translatable ranges are replaced while all other bytes stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from service.documents.containers.encoding import EncodedText
from service.documents.types import MarkedSource


@dataclass(frozen=True, slots=True)
class Place:
    """Characters ``start`` to ``end`` of a file; ``written`` formats a translation for it."""

    start: int
    end: int
    source: MarkedSource
    written: Callable[[str], str]


class SplicedDocument:
    """A ``Document`` of ordered, non-overlapping places."""

    def __init__(
        self,
        file: EncodedText,
        media_type: str,
        places: Sequence[Place],
        unencodable: Literal["strict", "xmlcharrefreplace"] = "strict",
    ) -> None:
        self._file = file
        self.media_type = media_type
        self._places = tuple(places)
        self._unencodable = unencodable
        self.texts = tuple(place.source for place in self._places)

    def replaced(self, translations: Sequence[str]) -> bytes:
        return self.encoded(self.spliced(translations))

    def encoded(self, text: str) -> bytes:
        """A text in the encoding of the file."""
        return self._file.encode(text, self._unencodable)

    def spliced(self, translations: Sequence[str]) -> str:
        """The text of the file with its places replaced."""
        parts: list[str] = []
        end_of_last = 0
        for place, translation in zip(self._places, translations, strict=True):
            parts.append(self._file.text[end_of_last : place.start])
            if translation == place.source.text:
                parts.append(self._file.text[place.start : place.end])
            else:
                parts.append(place.written(translation))
            end_of_last = place.end
        parts.append(self._file.text[end_of_last:])
        return "".join(parts)
