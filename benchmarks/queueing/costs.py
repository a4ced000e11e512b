"""Linear cost model of engine and event loop, fitted to measured processor time."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

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

    def of_window(self, window: Window) -> float:
        """Expected processor time of both threads in a window."""
        return self.of(window.work) + (self.receive + self.answer) * window.requests

    def slower(self, factor: float) -> Costs:
        """Costs on a machine that takes ``factor`` times as long for everything."""
        return Costs(
            self.step * factor,
            self.row * factor,
            self.encode * factor,
            self.source_token * factor,
            self.receive * factor,
            self.answer * factor,
            self.transit * factor,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Work of a service during an interval, and its processor time."""

    work: Work
    requests: int
    engine_seconds: float
    encode_seconds: float
    """Part of ``engine_seconds`` that encoded."""
    loop_seconds: float
    """Processor time of the event loop's thread."""

    @property
    def seconds(self) -> float:
        return self.engine_seconds + self.loop_seconds


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a window, up to ``ends``, in seconds since clients started."""

    ends: float
    work: Work
    received: int
    answered: int
    seconds: float
    """Processor time of both threads."""


class Slowness:
    """Ratio of actual to modelled processor time, by time; uses no latencies."""

    def __init__(self, costs: Costs, slices: Sequence[Slice]) -> None:
        self._ends: list[float] = []
        self._factors: list[float] = []
        for each in slices:
            usual = (
                costs.of(each.work) + costs.receive * each.received + costs.answer * each.answered
            )
            # The ratio of a nearly idle slice is meaningless.
            if usual > _LEAST_SECONDS:
                self._ends.append(each.ends)
                self._factors.append(each.seconds / usual)
        if not self._ends:
            raise ValueError("no slice has enough work to tell how slow the machine was")

    def __call__(self, at: float) -> float:
        place = bisect.bisect_left(self._ends, at)
        return self._factors[min(place, len(self._factors) - 1)]


@dataclass(frozen=True, slots=True)
class Fit:
    costs: Costs
    error: float
    """Root mean square of the relative error of the engine's seconds, over the windows."""
    loop_error: float
    """The same for the event loop."""


def fit(engine: Sequence[Window], loop: Sequence[Window]) -> Fit:
    """Fit non-negative costs with least squared relative errors.

    Encodes and steps are almost proportional at every load, so their sum cannot separate their
    costs. Each is fitted to its own seconds. The event loop has its own windows, because concurrent
    requests, as from clients in turn, cost it less than single ones. Raises ``ValueError`` for
    windows without work, or too few to separate the costs.
    """
    if len(engine) < 4 or not loop:
        raise ValueError(f"{len(engine)} windows do not tell four costs apart; measure more")
    if any(w.engine_seconds <= 0 or w.requests < 1 for w in (*engine, *loop)):
        raise ValueError("a window without work says nothing about costs")
    encodes = np.array([[w.work.encodes, w.work.source_tokens] for w in engine])
    steps = np.array([[w.work.steps, w.work.rows] for w in engine])
    encoding = np.array([window.encode_seconds for window in engine])
    stepping = np.array([window.engine_seconds for window in engine]) - encoding
    if (encoding <= 0).any() or (stepping <= 0).any():
        raise ValueError("a window without an encode or without a step says nothing about costs")
    (encode, source_token), _ = _least_squares(encodes / encoding[:, None])
    (step, row), _ = _least_squares(steps / stepping[:, None])
    found = encodes @ [encode, source_token] + steps @ [step, row]
    error = float(np.sqrt(np.mean((found / (encoding + stepping) - 1) ** 2)))
    requests = np.array([[window.requests / window.loop_seconds] for window in loop])
    (request,), loop_error = _least_squares(requests)
    # Latency is the sum of both, so the split into halves has no effect.
    costs = Costs(step, row, encode, source_token, request / 2, request / 2)
    return Fit(costs, error, loop_error)


def _least_squares(scaled: NDArray[np.float64]) -> tuple[list[float], float]:
    """Coefficients ≥ 0 that bring each row's sum nearest to 1, and the residual (rms).

    Tries every set of positive coefficients, since there are few columns.
    """
    count = scaled.shape[1]
    best: list[float] = [0.0] * count
    least = math.inf
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            columns = scaled[:, chosen]
            found = np.linalg.lstsq(columns, np.ones(len(scaled)), rcond=None)[0]
            if (found < 0).any():
                continue
            left = float(np.sqrt(np.mean((columns @ found - 1) ** 2)))
            if left < least:
                least, best = left, [0.0] * count
                for place, value in zip(chosen, found.tolist(), strict=True):
                    best[place] = value
    return best, least
