"""What an engine and its event loop spend on work, and how that is found from what they spent."""

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
    """Of an engine's thread, in one iteration or in many."""

    steps: float
    rows: float
    """Rows extended, over all steps."""
    encodes: float
    source_tokens: float
    """Of the sentences encoded, ``eos`` counted, without padding."""


@dataclass(frozen=True, slots=True)
class Costs:
    """In seconds. The model is linear: an iteration costs the sum over its work."""

    step: float
    """Of any step, however few rows it has."""
    row: float
    """Of each row that a step extends."""
    encode: float
    """Of any encode, however few sentences it has."""
    source_token: float
    receive: float
    """Of the event loop, from a request's bytes to the engine's inbox."""
    answer: float
    """Of the event loop, from the engine's result to the answer's bytes."""
    transit: float = 0.0
    """Between client and service, both ways; takes nobody's time."""

    def of(self, work: Work) -> float:
        return (
            self.step * work.steps
            + self.row * work.rows
            + self.encode * work.encodes
            + self.source_token * work.source_tokens
        )

    def of_window(self, window: Window) -> float:
        """What both threads should have spent in it."""
        return self.of(window.work) + (self.receive + self.answer) * window.requests

    def slower(self, factor: float) -> Costs:
        """On a machine that takes ``factor`` times as long for everything."""
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
    """What a service did for a while, and the processor time that it took."""

    work: Work
    requests: int
    engine_seconds: float
    encode_seconds: float
    """Of ``engine_seconds``, those in which the engine encoded."""
    loop_seconds: float
    """Of the thread of the event loop."""

    @property
    def seconds(self) -> float:
        return self.engine_seconds + self.loop_seconds


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a window: what happened until ``ends``, in seconds since clients started."""

    ends: float
    work: Work
    received: int
    answered: int
    seconds: float
    """Of both threads."""


class Slowness:
    """How many times the costs work took, by when it was; no latency has a part in it."""

    def __init__(self, costs: Costs, slices: Sequence[Slice]) -> None:
        self._ends: list[float] = []
        self._factors: list[float] = []
        for each in slices:
            usual = (
                costs.of(each.work) + costs.receive * each.received + costs.answer * each.answered
            )
            # Where next to nothing was done, what it took says nothing.
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
    """The same of the event loop's."""


def fit(engine: Sequence[Window], loop: Sequence[Window]) -> Fit:
    """The costs, none of them negative, with the least squared relative errors.

    Encodes and steps come in much the same proportion whatever the load, so that their sum would
    not tell one's cost from the other's: each is found from seconds of its own.
    The event loop's are found from windows of their own: requests that come at once, as those of
    clients in turn do, cost it less than requests that come one by one. Raises ``ValueError`` for
    windows in which nothing happened, or too few to tell costs apart.
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
    # Which half is whose is not told apart: a request waits for both.
    costs = Costs(step, row, encode, source_token, request / 2, request / 2)
    return Fit(costs, error, loop_error)


def _least_squares(scaled: NDArray[np.float64]) -> tuple[list[float], float]:
    """Coefficients ≥ 0 that bring each row's sum nearest to 1, and what is left (rms).

    With so few columns every set of them that may be above zero can be tried.
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
