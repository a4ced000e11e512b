"""Request tracing: OpenTelemetry if an OTLP address is set, otherwise a no-op.

A span has the facts of the log line: route, model, status, counts, times; never a text or a
secret. ``service.observability.otlp`` needs the extra tracing and is imported only with an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from service.observability.spans import RequestFinished, RequestSpan


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


def open_tracing(address: str) -> Tracing:
    """Tracing to an OTLP address over HTTP; a no-op for an empty address.

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
