from __future__ import annotations

import asyncio

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import service
from service.engine.engine import Engine
from service.engine.errors import EngineStopped
from service.engine.iteration import Departure, Finished, Iteration
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions, FinishReason
from service.observability.metrics import NO_MODEL, Metrics
from service.runtime.backend import CacheUse, Limits
from tests.engine.toy import SPECIAL_IDS, copying_model
from tests.engine.watching import GatedBackend

LIMITS = Limits(slots=2, rows_per_slot=4, source_length=8, target_length=16)
MODEL = "de-en"


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample; those of an engine are of the one on the CPU."""
    found = metrics.registry.get_sample_value(name, labels)
    if found is not None:
        return found
    return metrics.registry.get_sample_value(name, {"device": "cpu", **labels})


def cache_of(metrics: Metrics) -> tuple[float | None, float | None]:
    """Bytes that the caches have, and their limit."""
    names = ("nmt_kv_cache_bytes", "nmt_kv_cache_limit_bytes")
    return value(metrics, names[0], model=MODEL), value(metrics, names[1], model=MODEL)


async def test_joins_and_retires_show_continuous_batching() -> None:
    metrics, backend = Metrics(), GatedBackend(copying_model, LIMITS)
    scheduler = Scheduler(LIMITS, SPECIAL_IDS)
    engine = Engine(backend, scheduler, metrics.observer(MODEL).iterated)
    await engine.start()
    greedy = DecodingOptions(beam_size=1)
    first = asyncio.create_task(engine.decode((3, 4, 5), greedy))
    assert await asyncio.to_thread(backend.stepping.wait, 5)
    limit = backend.cache_use().limit
    assert cache_of(metrics) == (0, limit) and limit > 0
    others = [asyncio.create_task(engine.decode((6,), greedy)) for _ in range(3)]
    await asyncio.sleep(0)
    backend.gate.set()
    await asyncio.gather(first, *others)
    await engine.close()

    joins, retires = "nmt_batch_joins_total", "nmt_batch_retires_total"
    assert value(metrics, joins, model=MODEL, batch="empty") == 1
    assert value(metrics, joins, model=MODEL, batch="running") == 3
    left = {
        batch: value(metrics, retires, model=MODEL, reason="finished", batch=batch) or 0
        for batch in ("running", "empty")
    }
    assert left["running"] >= 2
    assert sum(left.values()) == 4

    assert value(metrics, "nmt_sentences_running", model=MODEL) == 0
    assert value(metrics, "nmt_sentences_waiting", model=MODEL) == 0
    assert value(metrics, "nmt_queue_tokens", model=MODEL) == 0
    assert value(metrics, "nmt_queue_duration_seconds_count", model=MODEL) == 4
    steps = len(backend.batch_sizes)
    assert value(metrics, "nmt_decode_step_duration_seconds_count", model=MODEL) == steps
    assert value(metrics, "nmt_batch_size_sum", model=MODEL) == sum(backend.batch_sizes)
    encodes = len(backend.encode_sizes)
    assert value(metrics, "nmt_encode_duration_seconds_count", model=MODEL) == encodes
    assert value(metrics, "nmt_source_tokens_total", model=MODEL) == 3 + 3 * 1
    assert value(metrics, "nmt_target_tokens_total", model=MODEL) == 4 + 3 * 2
    finished = "nmt_finished_sentences_total"
    assert value(metrics, finished, model=MODEL, finish_reason="complete") == 4
    assert value(metrics, finished, model=MODEL, finish_reason="length") == 0
    assert value(metrics, "nmt_engine_busy_seconds_total", model=MODEL)
    assert value(metrics, "nmt_engine_deaths_total", model=MODEL) == 0
    assert cache_of(metrics) == (0, 0)


def test_two_engines_of_one_model_add_up() -> None:
    metrics = Metrics()
    draining, successor = metrics.observer(MODEL), metrics.observer(MODEL)
    draining.iterated(
        Iteration(waited_seconds=[0.1, 0.1, 0.1], waiting_sentences=2, waiting_tokens=10)
    )
    successor.iterated(Iteration(waited_seconds=[0.1], waiting_sentences=1, waiting_tokens=5))
    assert value(metrics, "nmt_sentences_running", model=MODEL) == 4
    assert value(metrics, "nmt_sentences_waiting", model=MODEL) == 3
    draining.iterated(Iteration(departures=[Departure("finished", 3, 0)]))
    assert value(metrics, "nmt_sentences_running", model=MODEL) == 1
    assert value(metrics, "nmt_queue_tokens", model=MODEL) == 5
    for observer, taken in ((draining, 700), (successor, 100), (draining, 500)):
        observer.iterated(Iteration(cache=CacheUse(taken, 1000)))
    assert cache_of(metrics) == (600, 2000)
    draining.iterated(Iteration(cache=CacheUse(0, 0)))
    assert cache_of(metrics) == (100, 1000)


async def test_a_dead_engine_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, backend = Metrics(), GatedBackend(copying_model, LIMITS)
    engine = Engine(backend, Scheduler(LIMITS, SPECIAL_IDS), metrics.observer(MODEL).iterated)
    monkeypatch.setattr(Scheduler, "schedule", lambda _: 1 / 0)
    await engine.start()
    with pytest.raises(EngineStopped):
        await engine.decode((3, 4, 5), DecodingOptions(beam_size=1))
    await engine.close()
    assert value(metrics, "nmt_engine_deaths_total", model=MODEL) == 1
    assert value(metrics, "nmt_kv_cache_limit_bytes", model=MODEL) == 0


def test_readiness_is_evaluated_at_each_scrape() -> None:
    metrics = Metrics()
    answers = iter((False, True, False))
    assert value(metrics, "nmt_ready") == 0
    metrics.ready_while(lambda: next(answers))
    assert [value(metrics, "nmt_ready") for _ in range(3)] == [0, 1, 0]


def test_requests_padding_and_lengths_are_exposed() -> None:
    metrics = Metrics()
    finished = Finished(FinishReason.LENGTH, source_tokens=10, target_tokens=5)
    metrics.observer(MODEL).iterated(
        Iteration(encoded_tokens=15, padded_tokens=20, encode_seconds=0.01, finished=[finished])
    )
    metrics.request_finished("/translate", MODEL, "ok", 0.03)
    metrics.request_finished("/translate", NO_MODEL, "invalid", 0.001)
    metrics.request_failed("validation")
    metrics.characters(MODEL, 52)
    requests, route = "nmt_requests_total", {"route": "/translate"}
    expected: list[tuple[str, dict[str, str], float]] = [
        ("nmt_batch_padding_ratio_sum", {"model": MODEL}, 0.25),
        ("nmt_length_ratio_sum", {"model": MODEL}, 0.5),
        ("nmt_source_length_tokens_sum", {"model": MODEL}, 10),
        ("nmt_target_length_tokens_sum", {"model": MODEL}, 5),
        (requests, {**route, "model": MODEL, "outcome": "ok"}, 1),
        (requests, {**route, "model": NO_MODEL, "outcome": "invalid"}, 1),
        ("nmt_request_duration_seconds_count", route, 2),
        ("nmt_request_failures_total", {"reason": "validation"}, 1),
        ("nmt_request_failures_total", {"reason": "overloaded"}, 0),
        ("nmt_characters_total", {"model": MODEL}, 52),
    ]
    for name, labels, number in expected:
        assert value(metrics, name, **labels) == number, (name, labels)


def test_model_info_is_exposed_until_unloaded() -> None:
    metrics = Metrics()
    facts = {"source": "de", "target": "en", "precision": "int8", "sha256": "f" * 64}
    metrics.model_loaded({"model": MODEL, "version": "1", **facts}, 0.5)
    metrics.model_loaded({"model": "en-de", "version": "1", **facts}, 0.5)
    info = "nmt_model_info"
    assert value(metrics, info, model=MODEL, version="1", **facts) == 1

    metrics.model_loaded({"model": MODEL, "version": "2", **facts}, 0.5)
    assert value(metrics, info, model=MODEL, version="1", **facts) is None
    assert value(metrics, info, model=MODEL, version="2", **facts) == 1
    assert value(metrics, "nmt_model_load_duration_seconds_count", model=MODEL) == 2

    metrics.model_unloaded(MODEL)
    assert value(metrics, info, model=MODEL, version="2", **facts) is None
    assert value(metrics, info, model="en-de", version="1", **facts) == 1


def exposition(metrics: Metrics) -> str:
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return body.decode()


def test_series_follow_prometheus_naming() -> None:
    metrics = Metrics()
    finished = Finished(FinishReason.COMPLETE, 5, 5)
    metrics.observer(MODEL).iterated(Iteration(finished=[finished]))
    metrics.request_finished("/translate", MODEL, "ok", 0.03)
    text = exposition(metrics)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ours = {name: family for name, family in families.items() if name.startswith("nmt_")}
    for name, family in ours.items():
        assert family.documentation.endswith(".")
        assert (f"\n# TYPE {name}_total counter\n" in text) == (family.type == "counter")
        for sample in family.samples:
            labels = set(sample.labels)
            assert labels <= {
                *("model", "device", "version", "route", "outcome", "reason", "batch"),
                *("finish_reason", "result", "source", "target", "precision", "sha256", "le"),
            }


def test_text_format_has_process_and_version_and_nothing_of_openmetrics() -> None:
    metrics = Metrics()
    metrics.request_finished("/translate", MODEL, "ok", 0.03, trace_id="f" * 32)
    for accept in ("", "*/*", "text/html", "text/plain;version=0.0.4"):
        body, content_type = metrics.render(accept)
        assert content_type.startswith("text/plain")
        for word in (b"# UNIT", b"# EOF", b"trace_id", b"_created"):
            assert word not in body
    text = exposition(metrics)
    for name in ("process_resident_memory_bytes", "python_info", "python_gc_collections_total"):
        assert f"\n{name}" in text
    assert f'nmt_build_info{{version="{service.__version__}"}} 1.0' in text


OPEN_METRICS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""``Accept`` header of Prometheus 3."""


def openmetrics_families(metrics: Metrics) -> dict[str, Metric]:
    body, content_type = metrics.render(OPEN_METRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = openmetrics.text_string_to_metric_families(body.decode())
    return {family.name: family for family in families}


def test_openmetrics_have_units_and_exemplars_of_traced_requests() -> None:
    metrics = Metrics()
    metrics.request_finished("/translate", MODEL, "ok", 0.03, trace_id="f" * 32)
    metrics.request_finished("/translate", MODEL, "ok", 7.0)
    families = openmetrics_families(metrics)
    for name, unit in (
        *(("nmt_request_duration_seconds", "seconds"), ("nmt_engine_busy_seconds", "seconds")),
        *(("nmt_kv_cache_bytes", "bytes"), ("nmt_batch_padding_ratio", "ratio")),
        *(("nmt_source_tokens", "tokens"), ("nmt_sentences_running", "")),
    ):
        assert families[name].unit == unit
    samples = families["nmt_request_duration_seconds"].samples
    exemplars = {s.labels["le"]: s.exemplar for s in samples if s.exemplar}
    assert list(exemplars) == ["0.035"]
    assert exemplars["0.035"].labels == {"trace_id": "f" * 32}
    assert exemplars["0.035"].value == 0.03
    assert not any(sample.name.endswith("_created") for sample in samples)
