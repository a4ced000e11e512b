"""Interface of request spans, and the facts that a finished request reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """Facts of a finished request, written to its span."""

    route: str
    status: int | None
    outcome: str
    request_id: str
    model: str = ""
    characters: int | None = None
    tokens: int | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds per stage, in order of time."""


class RequestSpan(Protocol):
    """The span of one request."""

    trace_id: str | None
    """32 hexadecimal digits; ``None`` if tracing is off."""
    sampled: bool
    """Whether the trace is exported, so that a reference to it can be followed."""

    def finish(self, finished: RequestFinished) -> None: ...
