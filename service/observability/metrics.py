"""Registry of all Prometheus series of the service except those of the GPU (``device``).

Each ``Metrics`` has its own registry, so two apps can run in one process. Labels are bounded:
routes are templates, models are names on offer, and nothing that a client sends (text, key,
address) becomes a label. Each engine reports through its own observer. Gauges are changed by
differences, so a draining engine and its successor of the same name add up.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import service
from service.observability.model_series import (
    REQUEST_SECONDS,
    ModelObserver,
    ModelSeries,
    unit_of,
)

Outcome = Literal["ok", "rejected", "invalid", "cancelled", "timeout", "error"]
FailureReason = Literal[
    "overloaded",
    "deadline",
    "oom",
    "disconnect",
    "draining",
    "shutdown",
    "slow_body",
    "validation",
    "unauthorized",
    "rate_limit",
    "quota",
    "unknown_path",
    "model_unloaded",
    "internal",
]

ReloadOutcome = Literal["changed", "unchanged", "failed", "error"]

NO_MODEL = ""
"""The ``model`` of a request that was refused before a model was chosen."""

_LOAD_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)


class RequestObserver(Protocol):
    """Receives what becomes of requests; see the methods of ``Metrics``."""

    def request_accepted(self) -> None: ...

    def request_finished(
        self, route: str, model: str, outcome: Outcome, seconds: float, trace_id: str | None = None
    ) -> None: ...

    def request_failed(self, reason: FailureReason) -> None: ...

    def tokenized(self, model: str, seconds: float) -> None: ...

    def characters(self, model: str, count: int) -> None: ...


class _Registry(CollectorRegistry):
    """Omits the ``*_created`` gauges, a second series for each counter and histogram."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


class RequestCounters(Collector):
    """Request counters that are consistent in every scrape: ``accepted = finished + running``.

    Three separate prometheus-client counters would be read one after the other while requests
    arrive and finish. These share a lock, so a scrape sees their values at one moment. Safe to call
    from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accepted = 0
        self._finished: Counts[tuple[str, str, str]] = Counts()

    def accept(self) -> None:
        with self._lock:
            self._accepted += 1

    def finish(self, route: str, model: str, outcome: str) -> None:
        """Count the end of an accepted request, answered or not."""
        with self._lock:
            self._finished[route, model, outcome] += 1

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            accepted, finished = self._accepted, dict(self._finished)
        yield CounterMetricFamily(
            "nmt_requests_accepted", "Requests received, also those refused.", value=accepted
        )
        answered = CounterMetricFamily(
            "nmt_requests", "Requests answered.", labels=("route", "model", "outcome")
        )
        for labels, count in finished.items():
            answered.add_metric(labels, count)
        yield answered
        yield GaugeMetricFamily(
            "nmt_requests_running",
            "Requests received and not yet answered.",
            value=accepted - sum(finished.values()),
        )


class Metrics:
    """The series of one app. Safe to call from any thread."""

    def __init__(self) -> None:
        self.registry = _Registry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

        def counter(name: str, help_: str, *labels: str) -> Counter:
            return Counter(name, help_, labels, unit=unit_of(name), registry=self.registry)

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(name, help_, labels, unit=unit_of(name), registry=self.registry)

        def histogram(name: str, help_: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(
                name, help_, labels, unit=unit_of(name), buckets=buckets, registry=self.registry
            )

        # Requests.
        self.requests = RequestCounters()
        self.registry.register(self.requests)
        self.failures = counter(
            "nmt_request_failures_total", "Requests not answered as asked, by cause.", "reason"
        )
        for reason in get_args(FailureReason):
            self.failures.labels(reason)
        self.request_seconds = histogram(
            "nmt_request_duration_seconds",
            "Time from receiving a request to answering it.",
            REQUEST_SECONDS,
            "route",
        )
        self.source_characters = counter(
            "nmt_characters_total", "Characters of source text translated.", "model"
        )

        self.models = ModelSeries(self.registry)

        # Store of translations that are kept for attention requests.
        self.store_entries = gauge(
            "nmt_attention_store_entries", "Translations whose attention may be asked for."
        )
        self.store_bytes = gauge("nmt_attention_store_bytes", "Memory they take, by estimate.")
        self.store_evictions = counter(
            "nmt_attention_evictions_total", "Translations forgotten to make room for others."
        )

        # Models and reloads.
        self.ready = gauge("nmt_ready", "1 while /readyz answers 200, 0 otherwise.")
        self.missing_gpu = gauge(
            "nmt_gpu_missing",
            "1 if an installation for GPUs runs on the CPU because no GPU can be used.",
        )
        self.missing_gpu_reason = ""
        """Why, for health checks."""
        self.model_info = gauge(
            "nmt_model_info",
            "A model on offer; sha256 is of its manifest.",
            *("model", "version", "source", "target", "precision", "sha256"),
        )
        self.model_load_seconds = histogram(
            "nmt_model_load_duration_seconds",
            "Time to open, verify, load and prove a bundle.",
            _LOAD_SECONDS,
            "model",
        )
        self.model_load_failures = counter(
            "nmt_model_load_failures_total", "Loads on demand that failed.", "model"
        )
        self.model_evictions = counter(
            "nmt_model_evictions_total", "Idle models unloaded to make room for others.", "model"
        )
        self.model_resident_bytes = gauge(
            "nmt_model_resident_bytes",
            "Growth of the process at the load of a model that is loaded on demand.",
            "model",
        )
        self.reloads = counter(
            "nmt_reloads_total",
            "Reloads of the bundle directory, by outcome.",
            "outcome",
        )
        for outcome in get_args(ReloadOutcome):
            self.reloads.labels(outcome)
        self.reloaded_at = gauge(
            "nmt_reload_success_timestamp_seconds",
            "Time at which the catalogue was last found or made equal to the bundle directory.",
        )
        self.bundles_failed = gauge(
            "nmt_bundles_failed", "Bundles that were found and could not be loaded."
        )
        gauge("nmt_build_info", "The service that runs.", "version").labels(
            version=service.__version__
        ).set(1)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition in the format that the ``Accept`` header asks for, and its content type.

        OpenMetrics also has units, and exemplars of traced requests. The text format has neither.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def ready_while(self, ready: Callable[[], bool]) -> None:
        """Read ``nmt_ready`` from ``ready`` at each scrape, on any thread; it must not block."""
        self.ready.set_function(ready)

    def gpu_missing(self, reason: str) -> None:
        """Report why models run on the CPU in an installation for GPUs; empty if they do not."""
        self.missing_gpu_reason = reason
        self.missing_gpu.set(bool(reason))

    def observer(self, model: str, device: str = "cpu") -> ModelObserver:
        """A new observer for the engine of ``model`` on one device and for its result cache."""
        return ModelObserver(self.models, model, device)

    def request_accepted(self) -> None:
        """Count a received request. ``request_finished`` must follow in every case."""
        self.requests.accept()

    def request_finished(
        self, route: str, model: str, outcome: Outcome, seconds: float, trace_id: str | None = None
    ) -> None:
        """Count an answered request. ``model`` is a name on offer, or ``NO_MODEL``.

        ``trace_id`` of a sampled trace becomes the exemplar of the duration.
        """
        self.requests.finish(route, model, outcome)
        exemplar = None if trace_id is None else {"trace_id": trace_id}
        self.request_seconds.labels(route).observe(seconds, exemplar)

    def tokenized(self, model: str, seconds: float) -> None:
        """Record the time to detect, split and tokenize the texts of a request."""
        self.models.tokenize_seconds.labels(model).observe(seconds)

    def request_failed(self, reason: FailureReason) -> None:
        self.failures.labels(reason).inc()

    def characters(self, model: str, count: int) -> None:
        self.source_characters.labels(model).inc(count)

    def attention_store(self, *, entries: int, size: int, evicted: int) -> None:
        """Report the contents of the translation store; ``size`` is in bytes."""
        self.store_entries.set(entries)
        self.store_bytes.set(size)
        self.store_evictions.inc(evicted)

    def model_offered(self, facts: Mapping[str, str]) -> None:
        """Publish a model's facts, which are labels, in place of those of its predecessor."""
        self.model_unloaded(facts["model"])
        self.model_info.labels(**facts).set(1)
        # An increase is seen only in a series that exists before.
        for counter in (self.model_load_failures, self.model_evictions):
            counter.labels(facts["model"])

    def model_loaded(self, facts: Mapping[str, str], seconds: float) -> None:
        """Publish a model's facts and count its load."""
        self.model_offered(facts)
        self.model_load_seconds.labels(facts["model"]).observe(seconds)

    def model_resident(self, model: str, size: int) -> None:
        """Report the memory of a model that is loaded on demand, in bytes; 0 once unloaded."""
        self.model_resident_bytes.labels(model).set(size)

    def model_evicted(self, model: str) -> None:
        self.model_evictions.labels(model).inc()

    def model_load_failed(self, model: str) -> None:
        self.model_load_failures.labels(model).inc()

    def model_unloaded(self, model: str) -> None:
        """Remove the facts of ``model``. Its counters stay, as Prometheus expects."""
        for gauge in (self.model_info, self.model_resident_bytes):
            gauge.remove_by_labels({"model": model})

    def reloaded(self, outcome: ReloadOutcome, failed: int) -> None:
        """Record the end of a reload; ``failed`` bundles could not be loaded."""
        self.reloads.labels(outcome).inc()
        self.bundles_failed.set(failed)
        if outcome in {"changed", "unchanged"}:
            self.reloaded_at.set_to_current_time()
