"""Request counters that are consistent in every scrape: ``accepted = finished + running``.

Three separate prometheus-client counters would be read one after the other while requests arrive
and finish. These share a lock, so a scrape sees their values at one moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class RequestBooks(Collector):
    """Prometheus collector of the three series. Safe to call from any thread."""

    def __init__(self, prefix: str) -> None:
        """The series are ``{prefix}_accepted_total``, ``{prefix}_total``, ``{prefix}_running``."""
        self._prefix = prefix
        self._lock = threading.Lock()
        self._accepted = 0
        self._finished: Counter[tuple[str, str, str]] = Counter()

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
            f"{self._prefix}_accepted", "Requests received, also those refused.", value=accepted
        )
        answered = CounterMetricFamily(
            self._prefix, "Requests answered.", labels=("route", "model", "outcome")
        )
        for labels, count in finished.items():
            answered.add_metric(labels, count)
        yield answered
        yield GaugeMetricFamily(
            f"{self._prefix}_running",
            "Requests received and not yet answered.",
            value=accepted - sum(finished.values()),
        )
