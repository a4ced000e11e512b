"""Document of messages: values in a text file, each with any number of texts to translate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from service.documents.containers.encoding import EncodedText
from service.documents.containers.splicing import Place, SplicedDocument
from service.documents.fragments.message import Message
from service.documents.types import MarkedSource


@dataclass(frozen=True, slots=True)
class Entry:
    """Characters ``start`` to ``end`` of a file: a value; ``written`` encodes another one."""

    start: int
    end: int
    message: Message | str
    """The decoded value with its texts, or a value to write in any case."""
    written: Callable[[str], str]
    current: str | None = None
    """The value in the file, unless it is that of ``message``."""

    @property
    def texts(self) -> tuple[MarkedSource, ...]:
        return self.message.texts if isinstance(self.message, Message) else ()


class MessagesDocument:
    """A ``Document`` of the values of a file. Bytes outside of changed values stay the same."""

    def __init__(self, file: EncodedText, media_type: str, entries: Iterable[Entry]) -> None:
        self._file = file
        self.media_type = media_type
        self._entries = tuple(entries)
        self.texts = tuple(text for entry in self._entries for text in entry.texts)

    def replaced(self, translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        places: list[Place] = []
        values: list[str] = []
        for entry in self._entries:
            of_entry = list(islice(remaining, len(entry.texts)))
            message, current = entry.message, entry.current
            if isinstance(message, str):
                values.append(message)
            else:
                values.append(message.replaced(of_entry))
                current = message.value if current is None else current
            place = Place(entry.start, entry.end, MarkedSource(current or ""), entry.written)
            places.append(place)
        return SplicedDocument(self._file, self.media_type, places).replaced(values)
