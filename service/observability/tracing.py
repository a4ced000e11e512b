"""Spans of requests for a collector of traces, or silence.

What a span says is what the log says: route, model, status, counts, times; never a text or a
secret. ``service.observability.otlp`` makes real spans with OpenTelemetry, an extra that is
imported only where an address is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from service.observability.spans import RequestFinished, RequestSpan


class TracingUnavailable(Exception):
    """Traces are asked for and cannot be made; the message says what to do."""


class Tracing(Protocol):
    def request(
        self, method: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[RequestSpan]:
        """A span that ends with the context, and continues the trace that ``headers`` name."""
        ...

    def close(self) -> None:
        """Send what has not been sent. Blocks."""
        ...


class _SilentSpan:
    trace_id: str | None = None
    sampled = False

    def finish(self, finished: RequestFinished) -> None:
        pass


class SilentTracing:
    """Nobody listens, and it costs nothing."""

    def __init__(self) -> None:
        self._span = _SilentSpan()

    def request(
        self, method: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[RequestSpan]:
        return nullcontext(self._span)

    def close(self) -> None:
        pass


def open_tracing(address: str) -> Tracing:
    """Tracing to an OTLP address over HTTP, silence if there is none.

    Raises ``TracingUnavailable`` if the extra is not installed.
    """
    if not address:
        return SilentTracing()
    try:
        from service.observability.otlp import OtlpTracing
    except ImportError as error:
        raise TracingUnavailable(
            "DRAGOMAN_TRACING is set, and OpenTelemetry is not installed; "
            "install the extra tracing, or unset it"
        ) from error
    return OtlpTracing.to_address(address)
