"""What a caller, or whoever runs the service, may be told about its state. Knows no HTTP."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


class StateError(Exception):
    """Base of what a caller may be told."""


class StateFailed(StateError):
    """The database could not be read or written just now; the log says why."""

    def __init__(self, retry_after: int = 5) -> None:
        super().__init__("the service cannot reach its stored state; try again shortly")
        self.retry_after = retry_after


class RateLimited(StateError):
    """More requests than a caller may send in a minute; ``retry_after`` is in seconds."""

    def __init__(self, per_minute: int, retry_after: int) -> None:
        super().__init__(
            f"Slowdown: {_counted(per_minute, 'request')} a minute at most; "
            f"try again in {_counted(retry_after, 'second')}"
        )
        self.per_minute = per_minute
        self.retry_after = retry_after


class QuotaExceeded(StateError):
    """A request that would take a caller over its characters of the month; it was not begun."""

    def __init__(self, characters: int, used: int, quota: int, resets: datetime) -> None:
        super().__init__(
            f"Quota exceeded: {characters} characters are more than the {max(quota - used, 0)} "
            f"left of {quota} for this month; the next begins on {resets:%Y-%m-%d} (UTC)"
        )
        self.used = used
        self.quota = quota
        self.resets = resets


class InvalidGlossary(StateError):
    """A glossary, or an entry of one, that cannot be kept, and what would do."""


class GlossaryNotFound(StateError):
    """No such glossary, or it is somebody else's, which is told to nobody."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"there is no glossary {shortened(identifier)}")


class DictionaryNotFound(StateError):
    """A glossary without entries from one language to another."""

    def __init__(self, identifier: str, source: str, target: str) -> None:
        super().__init__(
            f"glossary {shortened(identifier)} has no entries from "
            f"{shortened(source)} to {shortened(target)}"
        )


class TooManyGlossaries(StateError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"there are {limit} glossaries already; delete one to make another")
        self.limit = limit


class InvalidSuggestion(StateError):
    """A suggestion that cannot be kept, and what would do."""


class SuggestionsFull(StateError):
    def __init__(self) -> None:
        super().__init__("no more suggestions are collected; tell the server's operator")


class StateUnavailable(Exception):
    """The database cannot be opened. For whoever runs the service: says what to do."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path


class KeyRefused(Exception):
    """A key that cannot be added or removed. For whoever runs the service: says why."""


def shortened(text: str, longest: int = 40) -> str:
    """What a message repeats of what a caller sent."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
