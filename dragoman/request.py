"""A question to the service, and how its answer is read. Sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how to read its answer."""

    method: str
    path: str
    """Below the service's address, quoted."""
    read: Callable[[bytes], T | Call[T]] = field(repr=False)
    """Of the answer's body, or what to ask next. Raises one of ``reading.MALFORMED``."""
    json: Mapping[str, Any] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    file: tuple[str, bytes] | None = field(default=None, repr=False)
    """Of the form: its name and what is in it."""
    answers: tuple[int, ...] = (200,)
    """Statuses that are not errors."""
