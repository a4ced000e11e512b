"""Runs one engine in a separate process, which sleeps between translations.

The parent sends messages through a pipe: first an engine to open, then work. An engine's exception
returns as ``Failed`` and is raised in the parent.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Self, TypeVar

from benchmarks.engines import Engine, Search, Translating
from benchmarks.machine import Memory, own_memory
from service.runtime import processor

if TYPE_CHECKING:
    from benchmarks.workloads import Sentences

# Settings of CTranslate2 in the caller's environment must not affect measurements.
_FOREIGN_PREFIX = "CT2_"

# Not multiprocessing, which would import the parent's main module with all its dependencies. Not
# -m, under which the message classes would have other names than in the parent.
_PROGRAM = "import sys; from benchmarks.worker import serve; serve(int(sys.argv[1]))"


class EngineFailed(Exception):
    """The engine could not be opened, or failed at its work; says why."""


@dataclass(frozen=True, slots=True)
class Work:
    batches: tuple[Sentences, ...]
    search: Search


@dataclass(frozen=True, slots=True)
class Done:
    """Result of some work; translations exclude ``eos``, ``tokens`` includes it."""

    translations: tuple[Sentences, ...]
    seconds: float
    others_cores: float | None
    """Cores that other processes used meanwhile."""
    memory: Memory | None

    @property
    def tokens(self) -> int:
        return sum(len(each) + 1 for batch in self.translations for each in batch)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Opened:
    memory: Memory | None


@dataclass(frozen=True, slots=True)
class Failed:
    reason: str


Answer = TypeVar("Answer", Opened, Done)


class Worker:
    """Handle of an engine's process; raises ``EngineFailed``. Close it, or use it in a ``with``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN_PREFIX)}
        self._pipe, worker_end = Pipe()
        with worker_end:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(worker_end.fileno())],
                env={**inherited, **engine.environment},
                pass_fds=[worker_end.fileno()],
            )
        try:
            self.memory_when_opened = self._ask(engine, Opened).memory
        except BaseException:
            self.close()
            raise

    def translate(self, batches: tuple[Sentences, ...], search: Search) -> Done:
        """Translate batch after batch, and measure the time."""
        return self._ask(Work(batches, search), Done)

    def close(self) -> None:
        self._pipe.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, question: Engine | Work, expected: type[Answer]) -> Answer:
        try:
            self._pipe.send(question)
            answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            status = self._process.wait()
            raise EngineFailed(f"{self.engine.label} ended with status {status}") from error
        if isinstance(answer, Failed):
            raise EngineFailed(f"{self.engine.label}: {answer.reason}")
        assert isinstance(answer, expected)
        return answer


def serve(descriptor: int) -> None:
    """Open the engine of the first message, then work until the parent closes the pipe."""
    pipe = Connection(descriptor)
    engine: Engine = pipe.recv()
    try:
        opened = engine.open()
    except Exception as error:
        pipe.send(Failed(str(error) or repr(error)))
        return
    try:
        pipe.send(Opened(own_memory()))
        while True:
            pipe.send(_perform(opened, pipe.recv()))
    except EOFError:
        # The parent has no more work.
        pass
    finally:
        opened.close()


def _perform(engine: Translating, work: Work) -> Done | Failed:
    try:
        translations, seconds, others = processor.timed(
            lambda: tuple(engine.translate(batch, work.search) for batch in work.batches)
        )
    except Exception as error:
        return Failed(str(error) or repr(error))
    return Done(translations, seconds, others, own_memory())
