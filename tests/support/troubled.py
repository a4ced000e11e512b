"""Wraps a backend to inject delays and failures.

Failures resemble those of a device: a call fails before its work or after it, at random, for lack
of memory or with another error.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.runtime.backend import Backend, CacheUse, Candidates, EncodeBatch, StepBatch, WarmUp


@dataclass(frozen=True, slots=True)
class Trouble:
    step_seconds: float = 0.0
    """Added to every step."""
    fail_rate: float = 0.0
    """Share of encodes and of steps that fail."""
    memory_rate: float = 0.0
    """Share of encodes and of steps that run out of memory."""
    only_while: Path | None = None
    """File that must exist for failures to occur; ``None`` lets them occur at any time."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--step-seconds", type=float, default=0.0, help="of each decoding step")
        parser.add_argument("--fail-rate", type=float, default=0.0, help="share of steps that fail")
        parser.add_argument(
            "--memory-rate", type=float, default=0.0, help="share of steps that find no memory"
        )
        parser.add_argument("--only-while", type=Path, help="steps fail while this file exists")

    @classmethod
    def of(cls, options: argparse.Namespace) -> Trouble:
        return cls(options.step_seconds, options.fail_rate, options.memory_rate, options.only_while)


class Troubled:
    """Delegates to ``backend`` with injected delays and failures."""

    def __init__(self, backend: Backend, trouble: Trouble, seed: int = 7) -> None:
        self.limits = backend.limits
        self._backend = backend
        self._trouble = trouble
        self._random = random.Random(seed)

    def encode(self, batch: EncodeBatch) -> None:
        self._amid_trouble(lambda: self._backend.encode(batch))

    def step(self, batch: StepBatch) -> Candidates:
        time.sleep(self._trouble.step_seconds)
        results: list[Candidates] = []
        self._amid_trouble(lambda: results.append(self._backend.step(batch)))
        return results[0]

    def move(self, origin: int, slot: int) -> None:
        self._backend.move(origin, slot)

    def check(self) -> None:
        self._backend.check()

    def reserve(self) -> None:
        self._backend.reserve()

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        return self._backend.warm_up(padded_tokens, seconds)

    def cache_use(self) -> CacheUse:
        return self._backend.cache_use()

    def close(self) -> None:
        self._backend.close()

    def _amid_trouble(self, work: Callable[[], None]) -> None:
        drawn = self._random.random()
        trouble = self._trouble
        error: Exception | None = None
        if trouble.only_while is None or trouble.only_while.exists():
            if drawn < trouble.fail_rate:
                error = RuntimeError("a failure made for a test")
            elif drawn < trouble.fail_rate + trouble.memory_rate:
                error = MemoryError("a shortage made for a test")
        if error is not None and self._random.random() < 0.5:
            raise error
        work()
        if error is not None:
            raise error
