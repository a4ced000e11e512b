"""Interface of request tracing, what a finished request reports, and the no-op without tracing.

A span has the facts of the log line: route, model, status, counts, times; never a text or a
secret. ``service.observability.otlp`` needs the extra tracing and is imported only with an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
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


class TracingUnavailable(Exception):
    """Tracing is configured but not installed; the message says what to do."""


class Tracing(Protocol):
    def request(
        self, method: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[RequestSpan]:
        """A span that ends with the context and continues the trace named in ``headers``."""
        ...

    def close(self) -> None:
        """Send pending spans. Blocks."""
        ...


class _SilentSpan:
    trace_id: str | None = None
    sampled = False

    def finish(self, finished: RequestFinished) -> None:
        pass


class SilentTracing:
    """No-op tracing."""

    def __init__(self) -> None:
        self._span = _SilentSpan()

    def request(
        self, method: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[RequestSpan]:
        return nullcontext(self._span)

    def close(self) -> None:
        pass
