"""Linear cost model of engine and event loop, fitted to measured processor time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the engine's thread, in one iteration or many."""

    steps: float
    rows: float
    """Rows extended, over all steps."""
    encodes: float
    source_tokens: float
    """Tokens of the encoded sentences, ``eos`` included, without padding."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in seconds. The model is linear: an iteration costs the sum over its work."""

    step: float
    """Per step, independent of its rows."""
    row: float
    """Per row of a step."""
    encode: float
    """Per encode, independent of its sentences."""
    source_token: float
    receive: float
    """Event loop time per request, from its bytes to the engine's inbox."""
    answer: float
    """Event loop time per answer, from the engine's result to its bytes."""
    transit: float = 0.0
    """Network time in both directions; uses no processor."""

    def of(self, work: Work) -> float:
        return (
            self.step * work.steps
            + self.row * work.rows
            + self.encode * work.encodes
            + self.source_token * work.source_tokens
        )

    def slower(self, factor: float) -> Costs:
        """Costs on a machine that takes ``factor`` times as long for everything."""
        return Costs(*(cost * factor for cost in astuple(self)))


@dataclass(frozen=True, slots=True)
class Window:
    """Work of a service during an interval, and its processor time."""

    ends: float
    """In seconds since clients started."""
    work: Work
    received: int
    answered: int
    engine_seconds: float
    encode_seconds: float
    """Part of ``engine_seconds`` that encoded."""
    loop_seconds: float
    """Processor time of the event loop's thread."""

    def slowness(self, costs: Costs) -> float:
        """Ratio of actual to modelled processor time; 0 for a nearly idle window."""
        usual = costs.of(self.work) + costs.receive * self.received + costs.answer * self.answered
        spent = self.engine_seconds + self.loop_seconds
        return spent / usual if usual > _LEAST_SECONDS else 0.0


class Slowness:
    """Ratio of actual to modelled processor time, by time; uses no latencies."""

    def __init__(self, costs: Costs, windows: Sequence[Window]) -> None:
        factors = [(window.ends, window.slowness(costs)) for window in windows]
        self._factors = [(ends, factor) for ends, factor in factors if factor]
        if not self._factors:
            raise ValueError("no window has enough work to tell how slow the machine was")

    def __call__(self, at: float) -> float:
        place = bisect_left(self._factors, (at, 0.0))
        return self._factors[min(place, len(self._factors) - 1)][1]


@dataclass(frozen=True, slots=True)
class Fit:
    costs: Costs
    error: float
    """Root mean square of the relative error of the engine's seconds, over the windows."""


def fit(engine: Sequence[Window], loop: Sequence[Window]) -> Fit:
    """Fit costs with least squared relative errors.

    Encodes and steps are almost proportional at every load, so their sum cannot separate their
    costs. Each is fitted to its own seconds. The event loop has its own windows, because concurrent
    requests, as from clients in turn, cost it less than single ones. Raises ``ValueError`` if the
    windows do not determine the costs.
    """
    if len(engine) < 4:
        raise ValueError(f"{len(engine)} windows do not tell four costs apart; measure more")
    encodes = np.array([[w.work.encodes, w.work.source_tokens] for w in engine])
    steps = np.array([[w.work.steps, w.work.rows] for w in engine])
    encoding = np.array([w.encode_seconds for w in engine])
    stepping = np.array([w.engine_seconds for w in engine]) - encoding
    encode, source_token = _least_squares(encodes, encoding)
    step, row = _least_squares(steps, stepping)
    found = encodes @ [encode, source_token] + steps @ [step, row]
    error = float(np.sqrt(np.mean((found / (encoding + stepping) - 1) ** 2)))
    (request,) = _least_squares(
        np.array([[float(w.answered)] for w in loop]), np.array([w.loop_seconds for w in loop])
    )
    # Latency is the sum of both, so the split into halves has no effect.
    return Fit(Costs(step, row, encode, source_token, request / 2, request / 2), error)


def _least_squares(work: NDArray[np.float64], seconds: NDArray[np.float64]) -> list[float]:
    """Costs per column of ``work``, 0 or more, with the least squared relative error."""
    if (seconds <= 0).any():
        raise ValueError("a window without work says nothing about costs; measure more")
    scaled = work / seconds[:, None]
    positive = np.ones(work.shape[1], dtype=bool)
    while True:
        found = np.linalg.lstsq(scaled[:, positive], np.ones(len(work)), rcond=None)[0]
        if (found >= 0).all():
            break
        positive[positive] = found >= 0
    costs = np.zeros(work.shape[1])
    costs[positive] = found
    return [float(cost) for cost in costs]
