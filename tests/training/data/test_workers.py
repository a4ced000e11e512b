from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.support.programs import python
from training.data.corpus import CorpusError
from training.data.workers import WorkerFailed, Workers

PATIENCE_SECONDS = 60.0


def squared(number: int) -> int:
    return number * number


def failing(number: int) -> int:
    match number:
        case 3:
            raise ZeroDivisionError("three")
        case 5:
            raise CorpusError("five")
        case 7:
            os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_any_number_of_processes_gives_the_results_in_order() -> None:
    for processes in (1, 2):
        with Workers(squared, processes) as workers:
            for count in (0, 1, 50):
                blocks = ((i, f"{i}") for i in range(count))
                assert [*workers.map(blocks)] == [(i * i, f"{i}") for i in range(count)]


def test_a_bounded_number_of_blocks_is_read_ahead() -> None:
    read = 0

    def blocks() -> Iterator[tuple[int, None]]:
        nonlocal read
        for read in range(1, 101):
            yield read, None

    with Workers(squared, 2) as workers:
        for done, _ in enumerate(workers.map(blocks())):
            assert read - done <= 6


@pytest.mark.parametrize(
    ("bad", "raised", "complaint"),
    [
        (3, WorkerFailed, "ZeroDivisionError: three"),
        (5, CorpusError, "five"),
        (7, WorkerFailed, "killed.* fewer --threads"),
    ],
)
def test_a_failed_or_killed_process_is_a_refusal(
    bad: int, raised: type[Exception], complaint: str
) -> None:
    with Workers(failing, 2) as workers, pytest.raises(raised, match=complaint):
        list(workers.map((i, None) for i in [0, *[bad] * 20]))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("name", ["clean_text", "encoding"])
def test_functions_of_processes_do_not_import_pytorch(name: str) -> None:
    loaded = python("-c", f"import sys, training.data.{name}; print('torch' in sys.modules)")
    assert loaded == "False\n"


def locking(path: Path) -> Path:
    """Hold a lock on the file until this process ends."""
    fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX)
    return path


def locked_and_killed(directory: Path) -> None:
    with Workers(locking, 2) as workers:
        blocks = ((directory / f"{i}", None) for i in range(8))
        next(workers.map(blocks))
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_end_when_the_one_that_started_them_is_killed(
    context: ForkServerContext, tmp_path: Path
) -> None:
    for i in range(8):
        (tmp_path / f"{i}").touch()
    process = context.Process(target=locked_and_killed, args=(tmp_path,))
    process.start()
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE_SECONDS
    for i in range(8):
        with (tmp_path / f"{i}").open("r+b") as file:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.05)
            else:
                pytest.fail("a worker process outlives the one that started it")
