"""Journal of a bulk translation's progress, so that the same command can resume after a kill.

The journal file is next to the unfinished output and is replaced as a whole. It records a place in
the source, the length of the output at that place, and the settings that determine the output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from service.bulk.reading import Place

_SCHEMA = 1
_NUMBERS_KEPT = 10


class UnusableJournal(Exception):
    """The unfinished translation cannot be resumed with this command; the message says why."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Line numbers to report: their count, and the first few."""

    count: int = 0
    first: tuple[int, ...] = ()

    def and_(self, numbers: tuple[int, ...]) -> Remarks:
        first = (*self.first, *numbers)[:_NUMBERS_KEPT]
        return Remarks(self.count + len(numbers), first)

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.first) else ""
        return f"line {', '.join(map(str, self.first))}{more}"


@dataclass(frozen=True, slots=True)
class Progress:
    """Output written so far, and the place in the source that it corresponds to."""

    place: Place = field(default=Place())
    written: int = 0
    """Bytes of output."""
    cut: Remarks = field(default=Remarks())
    """Lines whose translation was truncated."""
    skipped: Remarks = field(default=Remarks())
    """Lines that could not be translated and have an empty translation."""


@dataclass(frozen=True, slots=True)
class Journal:
    made_with: Mapping[str, Any]
    """Settings that determine the output, besides the source, by the names of their options."""
    progress: Progress

    def to_json(self) -> bytes:
        written = {"journal": _SCHEMA, "made_with": dict(self.made_with)} | asdict(self.progress)
        return json.dumps(written, ensure_ascii=False, indent=1).encode("utf-8")

    @classmethod
    def from_json(cls, text: bytes) -> Journal:
        """Raises ``UnusableJournal``."""
        try:
            found = json.loads(text)
            if found["journal"] != _SCHEMA:
                raise UnusableJournal("it was written by another version")
            place = Place(**found["place"])
            remarks = {name: _remarks(found[name]) for name in ("cut", "skipped")}
            progress = Progress(place, found["written"], **remarks)
            return cls(found["made_with"], progress)
        except (ValueError, KeyError, TypeError) as error:
            raise UnusableJournal(f"it cannot be read: {error!r}") from error

    def require(self, made_with: Mapping[str, Any]) -> None:
        """Raises ``UnusableJournal`` if the settings differ from the journal's."""
        names = sorted({*self.made_with, *made_with})
        differing = [name for name in names if self.made_with.get(name) != made_with.get(name)]
        if differing:
            reason = "; ".join(
                f"{name} was {_text(self.made_with.get(name))}, not {_text(made_with.get(name))}"
                for name in differing
            )
            raise UnusableJournal(reason)


def _remarks(found: Mapping[str, Any]) -> Remarks:
    return Remarks(found["count"], tuple(found["first"]))


def _text(value: object) -> str:
    return "unset" if value is None else str(value)
