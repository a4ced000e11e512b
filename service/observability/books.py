"""The count of requests, kept so that it balances whenever somebody looks.

Every request accepted is answered or still running: ``accepted = finished + running``. Three
counters of prometheus-client would be read one after the other while requests come and go, so
these are kept together, and a scrape sees all of them as they were at one moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class RequestBooks(Collector):
    """Safe to call from any thread."""

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
        """One of those accepted has been answered, or will never be."""
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
