"""What the span of a request reports, and the interface of a span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """What is told of a request once it has been answered."""

    route: str
    status: int | None
    outcome: str
    request_id: str
    model: str = ""
    characters: int | None = None
    tokens: int | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by name, one stage after the other."""


class RequestSpan(Protocol):
    trace_id: str | None
    """32 hexadecimal digits; ``None`` where nobody traces."""
    sampled: bool
    """Whether the trace is kept, so that somebody who looks for it will find it."""

    def finish(self, finished: RequestFinished) -> None: ...
