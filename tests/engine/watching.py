"""Observers and backends for tests of the engine."""

from __future__ import annotations

import threading
from collections import Counter

from service.engine.iteration import Departure, Iteration, LeaveReason
from service.engine.types import FinishReason
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from tests.support.toy import Script, ScriptedBackend


class CountingObserver:
    """Adds up the records of an engine, and checks that their counts agree at any time."""

    def __init__(self) -> None:
        self.running = 0
        self.joined_sentences = 0
        self.running_at_join: list[int] = []
        self.waited: list[float] = []
        self.departures: Counter[LeaveReason] = Counter()
        self.finish_reasons: Counter[FinishReason] = Counter()
        self.source_tokens = 0
        self.target_tokens = 0
        self.encodes: list[tuple[int, int]] = []
        """Tokens, and tokens with padding, of each batch."""
        self.steps: list[tuple[int, int]] = []
        self.line = (0, 0)
        self.deaths = 0

    def __call__(self, iteration: Iteration) -> None:
        """Cancellations come before the admission, all other departures after it."""
        first = [each for each in iteration.departures if each.reason == "cancelled"]
        for departure in first:
            self._depart(departure)
        if iteration.waited_seconds:
            assert iteration.running == self.running
            self.joined_sentences += len(iteration.waited_seconds)
            self.running += len(iteration.waited_seconds)
            self.running_at_join.append(iteration.running)
            self.waited += iteration.waited_seconds
        if iteration.encode_seconds is not None:
            assert iteration.encode_seconds >= 0
            self.encodes.append((iteration.encoded_tokens, iteration.padded_tokens))
        if iteration.step_seconds is not None:
            assert iteration.step_seconds >= 0
            self.steps.append((iteration.rows, self.running))
        for departure in iteration.departures[len(first) :]:
            self._depart(departure)
        for finished in iteration.finished:
            self.finish_reasons[finished.reason] += 1
            self.source_tokens += finished.source_tokens
            self.target_tokens += finished.target_tokens
        assert 0 <= iteration.waiting_sentences <= iteration.waiting_tokens
        self.line = iteration.waiting_sentences, iteration.waiting_tokens
        assert 0 <= iteration.cache.taken <= iteration.cache.limit
        self.deaths += iteration.died

    def _depart(self, departure: Departure) -> None:
        self.departures[departure.reason] += departure.count
        self.running -= departure.count
        assert departure.count > 0
        assert departure.running == self.running


class GatedBackend(ScriptedBackend):
    """Waits before each step until the gate is open."""

    def __init__(self, script: Script, limits: Limits) -> None:
        super().__init__(script, limits)
        self.gate = threading.Event()
        self.stepping = threading.Event()
        self.ended = threading.Event()

    def step(self, batch: StepBatch) -> Candidates:
        self.stepping.set()
        assert self.gate.wait(10), "the gate was not opened"
        return super().step(batch)

    def close(self) -> None:
        super().close()
        self.ended.set()


class FlakyBackend(ScriptedBackend):
    """Fails the next ``failing_encodes`` and ``failing_steps`` calls, and records all calls."""

    def __init__(self, script: Script, limits: Limits) -> None:
        super().__init__(script, limits)
        self.failing_encodes = 0
        self.failing_steps = 0
        self.calls: list[str] = []

    def encode(self, batch: EncodeBatch) -> None:
        self.calls.append("encode")
        if self.failing_encodes:
            self.failing_encodes -= 1
            raise RuntimeError("out of memory")
        super().encode(batch)

    def step(self, batch: StepBatch) -> Candidates:
        self.calls.append("step")
        if self.failing_steps:
            self.failing_steps -= 1
            raise RuntimeError("out of memory")
        return super().step(batch)


class GatedFlakyBackend(GatedBackend, FlakyBackend):
    """Waits before each step, and fails on demand."""
