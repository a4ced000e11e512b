"""Observers and backends for tests of the engine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from service.engine.observer import LeaveReason
from service.engine.types import FinishReason
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from service.runtime.scripted import Script, ScriptedBackend


class CountingObserver:
    """Counts events, and checks that joined, left and running counts agree at any time."""

    def __init__(self) -> None:
        self.running = 0
        self.joined_sentences = 0
        self.running_at_join: list[int] = []
        self.waited: list[float] = []
        self.departures: Counter[LeaveReason] = Counter()
        self.finish_reasons: Counter[FinishReason] = Counter()
        self.source_tokens = 0
        self.target_tokens = 0
        self.encodes: list[tuple[int, int, int]] = []
        self.steps: list[tuple[int, int]] = []
        self.line = (0, 0)
        self.iterations = 0
        self.cache = (0, 0)
        self.deaths = 0

    def joined(self, count: int, waited_seconds: Sequence[float], running: int) -> None:
        assert count == len(waited_seconds) > 0
        assert running == self.running
        self.joined_sentences += count
        self.running += count
        self.running_at_join.append(running)
        self.waited += waited_seconds

    def encoded(self, sentences: int, padded_tokens: int, tokens: int, seconds: float) -> None:
        assert seconds >= 0
        self.encodes.append((sentences, padded_tokens, tokens))

    def stepped(self, rows: int, sentences: int, seconds: float) -> None:
        assert sentences == self.running
        self.steps.append((rows, sentences))

    def left(self, reason: LeaveReason, count: int, running: int) -> None:
        self.departures[reason] += count
        self.running -= count
        assert count > 0 <= running <= self.running

    def finished(self, reason: FinishReason, source_tokens: int, target_tokens: int) -> None:
        self.finish_reasons[reason] += 1
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens

    def waiting(self, sentences: int, tokens: int) -> None:
        assert sentences >= 0
        assert tokens >= sentences
        self.line = (sentences, tokens)

    def worked(self, seconds: float) -> None:
        assert seconds >= 0
        self.iterations += 1

    def cached(self, taken: int, limit: int) -> None:
        assert 0 <= taken <= limit
        self.cache = (taken, limit)

    def died(self) -> None:
        self.deaths += 1


class GatedBackend(ScriptedBackend):
    """Waits before each step until the gate is open."""

    def __init__(self, script: Script, limits: Limits) -> None:
        super().__init__(script, limits)
        self.gate = threading.Event()
        self.stepping = threading.Event()

    def step(self, batch: StepBatch) -> Candidates:
        self.stepping.set()
        assert self.gate.wait(10), "the gate was not opened"
        return super().step(batch)


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
