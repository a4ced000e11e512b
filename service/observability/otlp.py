"""Request spans exported over OTLP. The only module that imports OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import service
from service.observability.tracing import RequestFinished, RequestSpan

_NANOSECONDS = 1_000_000_000
_SERVER_ERROR = 500


class OtlpTracing:
    """Tracing with its own provider, so that two services in one process do not share one."""

    def __init__(self, processor: SpanProcessor) -> None:
        described = {SERVICE_NAME: "dragoman", SERVICE_VERSION: service.__version__}
        self._provider = TracerProvider(resource=Resource.create(described), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("dragoman", service.__version__)
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to_address(cls, address: str) -> OtlpTracing:
        """Exports from a thread, in batches. Failed exports are logged and dropped."""
        return cls(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
        carried = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        span = self._tracer.start_span(
            method,
            context=self._propagator.extract(carried),
            kind=trace.SpanKind.SERVER,
            attributes={"http.request.method": method},
        )
        try:
            yield _Span(self._tracer, span, method)
        finally:
            span.end()

    def close(self) -> None:
        self._provider.shutdown()


class _Span:
    def __init__(self, tracer: trace.Tracer, span: trace.Span, method: str) -> None:
        context = span.get_span_context()
        self.trace_id: str | None = trace.format_trace_id(context.trace_id)
        self.sampled = context.trace_flags.sampled
        self._tracer = tracer
        self._span = span
        self._method = method
        self._began = time.time_ns()

    def finish(self, finished: RequestFinished) -> None:
        span = self._span
        span.update_name(f"{self._method} {finished.route}")
        known = {
            "http.route": finished.route,
            "http.response.status_code": finished.status,
            "dragoman.outcome": finished.outcome,
            "dragoman.request_id": finished.request_id,
            "dragoman.model": finished.model or None,
            "dragoman.characters": finished.characters,
            "dragoman.tokens": finished.tokens,
        }
        span.set_attributes({name: value for name, value in known.items() if value is not None})
        if finished.status is not None and finished.status >= _SERVER_ERROR:
            span.set_status(trace.StatusCode.ERROR)
        self._add_stages(finished.stages)

    def _add_stages(self, stages: Mapping[str, float]) -> None:
        """Add one span per stage, cut at the end of the request.

        Each stage is the longest over the request's sentences, so their sum may exceed the request.
        """
        within = trace.set_span_in_context(self._span)
        at, end = self._began, time.time_ns()
        for name, seconds in stages.items():
            until = min(at + int(seconds * _NANOSECONDS), end)
            self._tracer.start_span(name, context=within, start_time=at).end(until)
            at = until
