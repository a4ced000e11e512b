"""Reads the service's metrics, and checks that its counts of requests and sentences balance."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Books = dict[tuple[str, tuple[str, ...]], float]
"""Metric values, by series name and label values in the order of the label names."""


def read_books(exposition: str) -> Books:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def series(books: Books, name: str) -> dict[tuple[str, ...], float]:
    """Values of one metric by label values."""
    return {labels: value for (each, labels), value in books.items() if each == name}


def accepted(books: Books) -> float:
    return books["nmt_requests_accepted_total", ()]


def outcomes(books: Books) -> dict[str, float]:
    """Answered requests by outcome."""
    found: dict[str, float] = {}
    for (_, outcome, _), value in series(books, "nmt_requests_total").items():
        found[outcome] = found.get(outcome, 0) + value
    return found


def assert_no_sentence_is_left(books: Books) -> None:
    """No sentence waits or runs, and every sentence that joined a batch has left it."""
    for gauge in ("nmt_sentences_running", "nmt_sentences_waiting", "nmt_queue_tokens"):
        assert set(series(books, gauge).values()) == {0.0}, gauge
    joins, retires = (series(books, f"nmt_batch_{what}_total") for what in ("joins", "retires"))
    for model in {model for _, model in joins}:
        joined = sum(count for (_, of, *_), count in joins.items() if of == model)
        retired = sum(count for (_, of, *_), count in retires.items() if of == model)
        assert joined == retired, model
