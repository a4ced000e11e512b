from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service.api.middleware import RequestLog, facts_of
from service.bootstrap import open_tracing
from service.observability import logging as our_logging
from service.observability.metrics import Metrics
from service.observability.otlp import OtlpTracing
from service.observability.tracing import SilentTracing, Tracing, TracingUnavailable
from service.translation.types import Timing
from tests.support.local_server import answering

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def make_app(tracing: Tracing, metrics: Metrics | None = None) -> FastAPI:
    app = FastAPI()

    @app.get("/livez")
    async def livez() -> str:
        return "ok"

    @app.post("/translate/{number}")
    async def translate(request: Request, number: int) -> str:
        facts = facts_of(request)
        facts.model, facts.characters, facts.tokens = "shout", 7, 9
        facts.timing = Timing(preparing=0.000_01, queued=0.000_02, decoding=1000)
        logging.getLogger("service.test").info("translating")
        if number == 0:
            raise KeyError
        return "ok"

    app.add_middleware(RequestLog, metrics=metrics or Metrics(), tracing=tracing)
    return app


def client_of(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@asynccontextmanager
async def traced() -> AsyncIterator[tuple[httpx.AsyncClient, InMemorySpanExporter, Metrics]]:
    """A client of a traced app, its exporter of spans, and its metrics."""
    exporter, metrics = InMemorySpanExporter(), Metrics()
    tracing = OtlpTracing(SimpleSpanProcessor(exporter))
    async with client_of(make_app(tracing, metrics)) as client:
        yield client, exporter, metrics
    tracing.close()


async def test_request_and_its_stages_have_spans_in_the_incoming_trace() -> None:
    async with traced() as (client, exporter, metrics):
        headers = {"x-request-id": "r", **PARENT}
        await client.post("/translate/5?q=geheim", json={"q": "geheim"}, headers=headers)
        found = {span.name: span for span in exporter.get_finished_spans()}
    request = found["POST /translate/{number}"]
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/translate/{number}",
        "http.response.status_code": 200,
        "dragoman.outcome": "ok",
        "dragoman.request_id": "r",
        "dragoman.model": "shout",
        "dragoman.characters": 7,
        "dragoman.tokens": 9,
    }
    assert "geheim" not in "".join(span.to_json() for span in found.values())
    assert request.context is not None and request.parent is not None
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == "b7ad6b7169203331"
    exposed, _ = metrics.render("application/openmetrics-text")
    assert f'# {{trace_id="{TRACE}"}}' in exposed.decode()

    stages: list[Any] = [found[name] for name in ("prepare", "queue", "decode")]
    times = [time for stage in stages for time in (stage.start_time, stage.end_time)]
    assert times == sorted(times)
    assert request.end_time is not None and times[-1] <= request.end_time
    assert all(stage.parent.span_id == request.context.span_id for stage in stages)


async def test_probes_and_traces_that_are_not_sampled_have_no_spans() -> None:
    async with traced() as (client, exporter, metrics):
        await client.get("/livez", headers=PARENT)
        await client.post(
            "/translate/5", headers={"traceparent": PARENT["traceparent"][:-2] + "00"}
        )
        assert exporter.get_finished_spans() == ()
    exposed, _ = metrics.render("application/openmetrics-text")
    assert "trace_id" not in exposed.decode()


@pytest.mark.parametrize("odd", ["", "nonsense", "00-0-0-00", "ü" * 99, "00-" + "f" * 9999])
async def test_failed_request_with_an_invalid_traceparent_starts_a_trace(odd: str) -> None:
    async with traced() as (client, exporter, _):
        answer = await client.post("/translate/0", headers={b"traceparent": odd.encode()})
    assert answer.status_code == 500
    (span,) = [s for s in exporter.get_finished_spans() if s.name == "POST /translate/{number}"]
    assert span.parent is None
    assert not span.status.is_ok


async def test_log_lines_have_the_trace_id(capfd: pytest.CaptureFixture[str]) -> None:
    our_logging.configure("info", "console")
    async with traced() as (client, _, _):
        await client.post("/translate/5", headers=PARENT)
        await client.get("/livez")
    lines = [line for line in capfd.readouterr().err.splitlines() if "service." in line]
    assert len(lines) == 2
    assert all(f"trace_id={TRACE}" in line for line in lines)


def test_tracing_is_off_by_default() -> None:
    tracing = open_tracing("")
    assert isinstance(tracing, SilentTracing)
    with tracing.request("GET", PARENT) as span:
        assert span.trace_id is None
    tracing.close()


def test_a_missing_extra_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_opentelemetry(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(name)
        return real_import(name, *more, **named)

    monkeypatch.delitem(sys.modules, "service.observability.otlp")
    monkeypatch.setattr(builtins, "__import__", without_opentelemetry)
    with pytest.raises(TracingUnavailable, match="install the extra tracing"):
        open_tracing("http://127.0.0.1:4318/v1/traces")


async def test_spans_arrive_at_a_collector() -> None:
    received: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    with answering(Collector) as address:
        tracing = open_tracing(f"{address}/v1/traces")
        async with client_of(make_app(tracing)) as client:
            await client.post("/translate/5", headers=PARENT)
        tracing.close()
    (of_service,) = received[0].resource_spans
    described = {a.key: a.value.string_value for a in of_service.resource.attributes}
    assert described["service.name"] == "dragoman"
    (scope,) = of_service.scope_spans
    assert {span.name for span in scope.spans} == {
        *("POST /translate/{number}", "prepare", "queue", "decode")
    }
    assert {span.trace_id.hex() for span in scope.spans} == {TRACE}
