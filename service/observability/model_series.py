"""Prometheus series of each model, and the observer that fills them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.engine.iteration import Departure, Finished, Iteration, LeaveReason
from service.engine.types import FinishReason

REQUEST_SECONDS = (
    # Has a bound at two seconds, the latency objective of docker/prometheus/alerts.yml.
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.65),
    *(1.0, 2.0, 3.0, 5.0, 10.0, 30.0),
)
_STAGE_SECONDS = (0.0001, 0.0002, 0.0005, *REQUEST_SECONDS)
_STEP_SECONDS = tuple(
    float(f"{bound:.3g}") for bound in accumulate(repeat(1.5, 19), float.__mul__, initial=0.00025)
)
_ROWS = tuple(2.0**power for power in range(11))
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_PADDING_RATIOS = tuple(twentieths / 20 for twentieths in range(21))
_LENGTH_RATIOS = (0.25, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
_BATCHES = ("empty", "running")
_ENGINE = ("model", "device")
"""A model has an engine on each device: ``cpu``, or ``cuda:`` and the number of a GPU."""
_UNITS = ("seconds", "bytes", "tokens", "characters", "ratio")


def unit_of(name: str) -> str:
    """The OpenMetrics unit in the name of a series; empty if it has none."""
    last = name.removesuffix("_total").rpartition("_")[2]
    return last if last in _UNITS else ""


class ModelSeries:
    """Series with the label ``model``, those of an engine also with ``device``.

    Safe to write from any thread.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help_: str, *labels: str) -> Counter:
            return Counter(name, help_, labels, unit=unit_of(name), registry=registry)

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(name, help_, labels, unit=unit_of(name), registry=registry)

        def histogram(name: str, help_: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(
                name, help_, labels, unit=unit_of(name), buckets=buckets, registry=registry
            )

        self.tokenize_seconds = histogram(
            "nmt_tokenize_duration_seconds",
            "Time to read the texts of a request: detect, split, tokenize.",
            _STAGE_SECONDS,
            "model",
        )

        # Queue and batch.
        self.sentences_running = gauge("nmt_sentences_running", "Sentences in the batch.", *_ENGINE)
        self.sentences_waiting = gauge(
            "nmt_sentences_waiting", "Sentences waiting for a slot.", *_ENGINE
        )
        self.queue_tokens = gauge(
            "nmt_queue_tokens", "Source tokens of the sentences waiting for a slot.", *_ENGINE
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
            "Sentences looked up: a recent result, in flight for another request, or new.",
            "model",
            "result",
        )
        self.finished_sentences = counter(
            "nmt_finished_sentences_total",
            "Sentences translated, by why their search ended.",
            "model",
            "finish_reason",
        )

        # Iterations.
        self.encode_seconds = histogram(
            "nmt_encode_duration_seconds",
            "Time to encode the sentences that entered together.",
            _STAGE_SECONDS,
            *_ENGINE,
        )
        self.step_seconds = histogram(
            "nmt_decode_step_duration_seconds",
            "Time of one decoder step over all rows.",
            _STEP_SECONDS,
            *_ENGINE,
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

        self.busy_seconds = counter(
            "nmt_engine_busy_seconds_total",
            "Time the engine computed instead of waiting.",
            *_ENGINE,
        )
        self.deaths = counter(
            "nmt_engine_deaths_total",
            "Times a bug ended the engine; a reload brings it back.",
            *_ENGINE,
        )
        self.cache_bytes = gauge(
            "nmt_kv_cache_bytes", "Memory that keys and values take.", *_ENGINE
        )
        self.cache_limit_bytes = gauge(
            "nmt_kv_cache_limit_bytes", "Memory that keys and values may take.", *_ENGINE
        )

        # Tokens.
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


class ModelObserver:
    """Records the events of one engine in the series of its model."""

    def __init__(self, series: ModelSeries, model: str, device: str) -> None:
        self._before = Iteration()
        self._running = series.sentences_running.labels(model, device)
        self._waiting = series.sentences_waiting.labels(model, device)
        self._queue_tokens = series.queue_tokens.labels(model, device)
        self._queue_seconds = series.queue_seconds.labels(model)
        self._joins = {batch: series.joins.labels(model, batch) for batch in _BATCHES}
        self._retires = {
            (reason, batch): series.retires.labels(model, reason, batch)
            for reason in get_args(LeaveReason)
            for batch in _BATCHES
        }
        self._finished = {
            reason: series.finished_sentences.labels(model, reason.value) for reason in FinishReason
        }
        self._encode_seconds = series.encode_seconds.labels(model, device)
        self._step_seconds = series.step_seconds.labels(model, device)
        self._rows = series.batch_rows.labels(model)
        self._padding_ratio = series.padding_ratio.labels(model)
        self._deaths = series.deaths.labels(model, device)
        self._busy_seconds = series.busy_seconds.labels(model, device)
        self._cache_bytes = series.cache_bytes.labels(model, device)
        self._cache_limit_bytes = series.cache_limit_bytes.labels(model, device)
        self._source_tokens = series.source_tokens.labels(model)
        self._target_tokens = series.target_tokens.labels(model)
        self._lookups = {
            result: series.lookups.labels(model, result) for result in ("hit", "miss", "coalesced")
        }
        self._source_length = series.source_length.labels(model)
        self._target_length = series.target_length.labels(model)
        self._length_ratio = series.length_ratio.labels(model)

    def looked_up(self, result: str) -> None:
        self._lookups[result].inc()

    def iterated(self, iteration: Iteration) -> None:
        """Record one iteration of the engine."""
        if iteration.waited_seconds:
            self._join(iteration.waited_seconds, iteration.running)
        if iteration.encode_seconds is not None:
            self._encode_seconds.observe(iteration.encode_seconds)
            self._padding_ratio.observe(1 - iteration.encoded_tokens / iteration.padded_tokens)
        if iteration.step_seconds is not None:
            self._step_seconds.observe(iteration.step_seconds)
            self._rows.observe(iteration.rows)
        for finished in iteration.finished:
            self._finish(finished)
        for departure in iteration.departures:
            self._depart(departure)
        self._use(iteration)
        self._busy_seconds.inc(iteration.busy_seconds)
        if iteration.died:
            self._deaths.inc()

    def _join(self, waited_seconds: Sequence[float], running: int) -> None:
        self._joins[_batch(running)].inc(len(waited_seconds))
        self._running.inc(len(waited_seconds))
        for seconds in waited_seconds:
            self._queue_seconds.observe(seconds)

    def _depart(self, departure: Departure) -> None:
        self._retires[departure.reason, _batch(departure.running)].inc(departure.count)
        self._running.dec(departure.count)

    def _finish(self, finished: Finished) -> None:
        self._finished[finished.reason].inc()
        self._source_tokens.inc(finished.source_tokens)
        self._target_tokens.inc(finished.target_tokens)
        self._source_length.observe(finished.source_tokens)
        self._target_length.observe(finished.target_tokens)
        self._length_ratio.observe(finished.target_tokens / finished.source_tokens)

    def _use(self, now: Iteration) -> None:
        """Add the changes of the waiting queue and of the cache since the previous iteration."""
        before, self._before = self._before, now
        self._waiting.inc(now.waiting_sentences - before.waiting_sentences)
        self._queue_tokens.inc(now.waiting_tokens - before.waiting_tokens)
        if now.cache != before.cache:
            self._cache_bytes.inc(now.cache.taken - before.cache.taken)
            self._cache_limit_bytes.inc(now.cache.limit - before.cache.limit)


def _batch(running: int) -> str:
    return "running" if running else "empty"
