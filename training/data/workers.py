"""Process pool that maps one function over blocks, in their order, a bounded number at a time.

With one process the function is called here, block by block: results are equal, because the
function's result depends on nothing but its block.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, Self, TypeVar

from training.refusal import Refusal

Block = TypeVar("Block")
Result = TypeVar("Result")
Note = TypeVar("Note")

_IN_FLIGHT = 3
"""Blocks in flight for each process: one being computed, others waiting on either side of it."""


class WorkerFailed(Refusal):
    """A worker process was killed, or its function raised; the message says what to do."""


class Workers(Generic[Block, Result]):
    """Context manager of worker processes, which start when a second block comes.

    ``function`` is pickled once for each process. Processes end with the context, and with the
    process that started them, even if that is killed.
    """

    def __init__(self, function: Callable[[Block], Result], processes: int) -> None:
        self._function = function
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, blocks: Iterable[tuple[Block, Note]]) -> Iterator[tuple[Result, Note]]:
        """The result for each block, in order, with the block's note, which stays here.

        Raises ``WorkerFailed``, also in place of an exception in another process.
        """
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        blocks = itertools.chain(first, blocks)
        if self._processes == 1 or len(first) < 2:
            for block, note in blocks:
                yield self._function(block), note
            return
        pool = self._started()
        waiting: deque[tuple[Future[Result], Note]] = deque()
        for block, note in blocks:
            waiting.append((_submitted(pool, block), note))
            if len(waiting) == _IN_FLIGHT * self._processes:
                future, earlier = waiting.popleft()
                yield _result(future), earlier
        for future, note in waiting:
            yield _result(future), note

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._processes,
                # A fork would copy the threads' locks of PyTorch and of tqdm.
                multiprocessing.get_context("spawn"),
                _begin,
                (self._function,),
            )
        return self._pool


_function: Callable[[Any], Any]
"""The function of this worker process."""


def _begin(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # An interrupt reaches every process of a terminal; the one that started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker process was started by another one"
    parent.join()
    os._exit(1)


def _call(block: Any) -> Any:
    return _function(block)


def _submitted(pool: ProcessPoolExecutor, block: Any) -> Future[Any]:
    try:
        return pool.submit(_call, block)
    except BrokenProcessPool as error:
        raise _killed() from error


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise _killed() from error
    except Refusal:
        raise
    except Exception as error:
        raise WorkerFailed(
            f"a worker process failed: {type(error).__name__}: {error}; with --threads 1 the same "
            "command shows where"
        ) from error


def _killed() -> WorkerFailed:
    return WorkerFailed(
        "a worker process was killed, perhaps for lack of memory; the same command goes on where "
        "it stopped, and needs less memory with fewer --threads"
    )
