"""Every Prometheus series of the service, by name.

Each ``Metrics`` has a registry of its own, so two apps can live in one process. Labels
are bounded: routes are templates, models are names on offer, and nothing a client sends
(text, key, address) ever becomes one. Engines report through an observer per engine;
gauges move by differences, so an engine that drains and its successor of the same name
add up instead of overwriting each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from typing import Literal, get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric

import service
from service.engine.observer import LeaveReason
from service.engine.types import FinishReason
from service.observability.books import RequestBooks

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

_REQUEST_SECONDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.65),
    *(1.0, 1.75, 3.0, 5.0, 10.0, 30.0),
)
_STAGE_SECONDS = (0.0001, 0.0002, 0.0005, *_REQUEST_SECONDS)
_STEP_SECONDS = tuple(
    float(f"{bound:.3g}") for bound in accumulate(repeat(1.5, 19), float.__mul__, initial=0.00025)
)
_LOAD_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
_ROWS = tuple(2.0**power for power in range(11))
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_PADDING_RATIOS = tuple(twentieths / 20 for twentieths in range(21))
_LENGTH_RATIOS = (0.25, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
_BATCHES = ("empty", "running")


class _Registry(CollectorRegistry):
    """Leaves out the ``*_created`` gauges, a second series for each counter and histogram."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


class Metrics:
    """The series of one app. Safe to call from any thread."""

    def __init__(self) -> None:
        self.registry = _Registry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

        def counter(name: str, help_: str, *labels: str) -> Counter:
            return Counter(name, help_, labels, registry=self.registry)

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(name, help_, labels, registry=self.registry)

        def histogram(name: str, help_: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, help_, labels, buckets=buckets, registry=self.registry)

        # Requests, as clients see them.
        self.books = RequestBooks("nmt_requests")
        self.registry.register(self.books)
        self.failures = counter(
            "nmt_request_failures_total", "Requests not answered as asked, by cause.", "reason"
        )
        for reason in get_args(FailureReason):
            self.failures.labels(reason)
        self.request_seconds = histogram(
            "nmt_request_duration_seconds",
            "Time from receiving a request to answering it.",
            _REQUEST_SECONDS,
            "route",
        )
        self.source_characters = counter(
            "nmt_characters_total", "Characters of source text translated.", "model"
        )

        # Sentences on their way through an engine.
        self.sentences_running = gauge("nmt_sentences_running", "Sentences in the batch.", "model")
        self.sentences_waiting = gauge(
            "nmt_sentences_waiting", "Sentences waiting for a slot.", "model"
        )
        self.queue_tokens = gauge(
            "nmt_queue_tokens", "Source tokens of the sentences waiting for a slot.", "model"
        )
        self.queue_seconds = histogram(
            "nmt_queue_duration_seconds",
            "Time a sentence waited for its slot.",
            _STAGE_SECONDS,
            "model",
        )
        self.joins = counter(
            "nmt_batch_joins_total",
            "Sentences that entered the batch; batch tells whether others were running in it.",
            "model",
            "batch",
        )
        self.retires = counter(
            "nmt_batch_retires_total",
            "Sentences that left the batch; batch tells whether others kept running in it.",
            "model",
            "reason",
            "batch",
        )
        self.lookups = counter(
            "nmt_cache_lookups_total",
            "Sentences asked for: found among recent results, in flight for somebody else, or new.",
            "model",
            "result",
        )
        self.finished_sentences = counter(
            "nmt_finished_sentences_total",
            "Sentences translated, by why their search ended.",
            "model",
            "finish_reason",
        )

        # What an iteration costs, and how full it is.
        self.encode_seconds = histogram(
            "nmt_encode_duration_seconds",
            "Time to encode the sentences that entered together.",
            _STAGE_SECONDS,
            "model",
        )
        self.step_seconds = histogram(
            "nmt_decode_step_duration_seconds",
            "Time of one decoder step over all rows.",
            _STEP_SECONDS,
            "model",
        )
        self.batch_rows = histogram(
            "nmt_batch_size", "Rows (hypotheses) extended by one decoder step.", _ROWS, "model"
        )
        self.padding_ratio = histogram(
            "nmt_batch_padding_ratio",
            "Share of an encoder batch that is padding.",
            _PADDING_RATIOS,
            "model",
        )

        # What was translated.
        self.source_tokens = counter(
            "nmt_source_tokens_total", "Source tokens of translated sentences.", "model"
        )
        self.target_tokens = counter(
            "nmt_target_tokens_total", "Tokens of the translations returned.", "model"
        )
        self.source_length = histogram(
            "nmt_source_length_tokens", "Tokens of a source sentence.", _TOKENS, "model"
        )
        self.target_length = histogram(
            "nmt_target_length_tokens", "Tokens of a translated sentence.", _TOKENS, "model"
        )
        self.length_ratio = histogram(
            "nmt_length_ratio",
            "Tokens of a translation for each token of its source.",
            _LENGTH_RATIOS,
            "model",
        )

        # Translations whose attention may be asked for.
        self.store_entries = gauge(
            "nmt_attention_store_entries", "Translations whose attention may be asked for."
        )
        self.store_bytes = gauge("nmt_attention_store_bytes", "Memory they take, by estimate.")
        self.store_evictions = counter(
            "nmt_attention_evictions_total", "Translations forgotten to make room for others."
        )

        # What is being served.
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
        self.reloads = counter(
            "nmt_reloads_total",
            "Times the offer was compared with the bundle directory, by what came of it.",
            "outcome",
        )
        for outcome in get_args(ReloadOutcome):
            self.reloads.labels(outcome)
        self.reloaded_at = gauge(
            "nmt_reload_success_timestamp_seconds",
            "When the offer was last found or made equal to the bundle directory.",
        )
        self.bundles_failed = gauge(
            "nmt_bundles_failed", "Bundles that were found and could not be loaded."
        )
        gauge("nmt_build_info", "The service that runs.", "version").labels(
            version=service.__version__
        ).set(1)

    def render(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def observer(self, model: str) -> _ModelObserver:
        """A new observer for one engine that serves ``model``, and for its memory of results."""
        return _ModelObserver(self, model)

    def request_accepted(self) -> None:
        """Count a request that has arrived. ``request_finished`` follows, whatever happens."""
        self.books.accept()

    def request_finished(self, route: str, model: str, outcome: Outcome, seconds: float) -> None:
        """Count an answered request. ``model`` is a name on offer, or ``NO_MODEL``."""
        self.books.finish(route, model, outcome)
        self.request_seconds.labels(route).observe(seconds)

    def request_failed(self, reason: FailureReason) -> None:
        self.failures.labels(reason).inc()

    def characters(self, model: str, count: int) -> None:
        self.source_characters.labels(model).inc(count)

    def attention_store(self, *, entries: int, size: int, evicted: int) -> None:
        """What the store of translations holds by now, ``size`` in bytes."""
        self.store_entries.set(entries)
        self.store_bytes.set(size)
        self.store_evictions.inc(evicted)

    def model_loaded(
        self,
        model: str,
        *,
        version: str,
        source: str,
        target: str,
        precision: str,
        sha256: str,
        seconds: float,
    ) -> None:
        """Show what ``model`` is, in place of what it was before, if it was on offer."""
        self.model_unloaded(model)
        self.model_info.labels(model, version, source, target, precision, sha256).set(1)
        self.model_load_seconds.labels(model).observe(seconds)

    def model_unloaded(self, model: str) -> None:
        """``model`` is no longer on offer. Its counters stay, as Prometheus expects of counters."""
        self.model_info.remove_by_labels({"model": model})

    def reloaded(self, outcome: ReloadOutcome, failed: int) -> None:
        """A reload has ended with ``failed`` bundles that cannot be offered."""
        self.reloads.labels(outcome).inc()
        self.bundles_failed.set(failed)
        if outcome in {"changed", "unchanged"}:
            self.reloaded_at.set_to_current_time()


class _ModelObserver:
    """Writes what one engine reports into the series of its model."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._in_line = 0
        self._tokens_in_line = 0
        self._running = metrics.sentences_running.labels(model)
        self._waiting = metrics.sentences_waiting.labels(model)
        self._queue_tokens = metrics.queue_tokens.labels(model)
        self._queue_seconds = metrics.queue_seconds.labels(model)
        self._joins = {batch: metrics.joins.labels(model, batch) for batch in _BATCHES}
        self._retires = {
            (reason, batch): metrics.retires.labels(model, reason, batch)
            for reason in get_args(LeaveReason)
            for batch in _BATCHES
        }
        self._finished = {
            reason: metrics.finished_sentences.labels(model, reason.value)
            for reason in FinishReason
        }
        self._encode_seconds = metrics.encode_seconds.labels(model)
        self._step_seconds = metrics.step_seconds.labels(model)
        self._rows = metrics.batch_rows.labels(model)
        self._padding_ratio = metrics.padding_ratio.labels(model)
        self._source_tokens = metrics.source_tokens.labels(model)
        self._target_tokens = metrics.target_tokens.labels(model)
        self._lookups = {
            result: metrics.lookups.labels(model, result) for result in ("hit", "miss", "coalesced")
        }
        self._source_length = metrics.source_length.labels(model)
        self._target_length = metrics.target_length.labels(model)
        self._length_ratio = metrics.length_ratio.labels(model)

    def joined(self, count: int, waited_seconds: Sequence[float], running: int) -> None:
        self._joins[_batch(running)].inc(count)
        self._running.inc(count)
        for seconds in waited_seconds:
            self._queue_seconds.observe(seconds)

    def encoded(self, sentences: int, padded_tokens: int, tokens: int, seconds: float) -> None:
        self._encode_seconds.observe(seconds)
        self._padding_ratio.observe(1 - tokens / padded_tokens)

    def stepped(self, rows: int, sentences: int, seconds: float) -> None:
        self._step_seconds.observe(seconds)
        self._rows.observe(rows)

    def left(self, reason: LeaveReason, count: int, running: int) -> None:
        self._retires[reason, _batch(running)].inc(count)
        self._running.dec(count)

    def finished(self, reason: FinishReason, source_tokens: int, target_tokens: int) -> None:
        self._finished[reason].inc()
        self._source_tokens.inc(source_tokens)
        self._target_tokens.inc(target_tokens)
        self._source_length.observe(source_tokens)
        self._target_length.observe(target_tokens)
        self._length_ratio.observe(target_tokens / source_tokens)

    def looked_up(self, result: str) -> None:
        self._lookups[result].inc()

    def waiting(self, sentences: int, tokens: int) -> None:
        self._waiting.inc(sentences - self._in_line)
        self._queue_tokens.inc(tokens - self._tokens_in_line)
        self._in_line, self._tokens_in_line = sentences, tokens


def _batch(running: int) -> str:
    return "running" if running else "empty"
