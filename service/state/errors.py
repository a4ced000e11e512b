"""Errors of the persistent state, for callers and for the operator. Independent of HTTP."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


class StateError(Exception):
    """Base of the errors whose messages callers may see."""


class StateFailed(StateError):
    """A database read or write failed, perhaps temporarily; the log has the cause."""

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
        self.retry_after = retry_after


class QuotaExceeded(StateError):
    """A request refused before any work, because it would exceed the monthly quota."""

    def __init__(self, characters: int, used: int, quota: int, resets: datetime) -> None:
        super().__init__(
            f"Quota exceeded: {characters} characters are more than the {max(quota - used, 0)} "
            f"left of {quota} for this month; the next begins on {resets:%Y-%m-%d} (UTC)"
        )


class InvalidGlossary(StateError):
    """An invalid glossary or entry; the message says what would be valid."""


class GlossaryNotFound(StateError):
    """No such glossary for this owner. Another owner's glossary gives the same error."""

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


class InvalidMemory(StateError):
    """An invalid name or file of a translation memory; the message says what would be valid."""


class MemoryNotFound(StateError):
    """No such translation memory or job for this owner. Another owner's gives the same error."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"there is no translation memory or job {shortened(identifier)}")


class TooManyMemories(StateError):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"there are {limit} translation memories or jobs already; delete one, or try tomorrow"
        )


class InvalidSuggestion(StateError):
    """An invalid suggestion; the message says what would be valid."""


class SuggestionsFull(StateError):
    def __init__(self) -> None:
        super().__init__("no more suggestions are collected; tell the server's operator")


class StateUnavailable(Exception):
    """The database cannot be opened. The message tells the operator what to do."""

    def __init__(self, place: Path | str, problem: str, remedy: str) -> None:
        super().__init__(f"{place}: {problem}; {remedy}")


class StateNotEmpty(Exception):
    """A state that should be copied into, and has rows already."""

    def __init__(self, place: str, table: str) -> None:
        super().__init__(f"{place}: there are {table} already; copy into an empty state")


class KeyRefused(StateError):
    """A key or limit that is not valid. The message tells the operator why."""


class KeyTaken(KeyRefused):
    """The name or the key is in use already."""


class KeyNotFound(KeyRefused):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no key named {shortened(name)!r}; see `dragoman keys list`")


def shortened(text: str) -> str:
    """A caller's text cut to 40 characters, for error messages."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
