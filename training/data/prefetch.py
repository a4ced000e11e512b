"""Background thread that prefetches batches for the training loop."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import Protocol

import torch

from training.data.portions import Portion


class Source(Protocol):
    def next(self) -> Portion: ...


class Prefetcher:
    """Returns the portions of ``source`` in order, with at most ``depth`` fetched ahead.

    An exception of ``source`` is raised by the ``next`` that would have returned its portion.
    Leaving the ``with`` block waits for the fetch in progress and ends the thread. Portions
    fetched and not consumed are dropped: the position in the data is ``Portion.end`` of the last
    one consumed. For a CUDA ``device``, portions are put into page-locked memory.
    """

    def __init__(self, source: Source, depth: int, device: torch.device | None = None) -> None:
        if depth < 1:
            raise ValueError(f"a depth of {depth} keeps nothing ready; 1 is the least")
        self._source = source
        self._depth = depth
        self._device = device if device is not None and device.type == "cuda" else None
        self._changed = threading.Condition()
        self._ready: deque[Portion | BaseException] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self.waited = 0.0
        """Total seconds that ``next`` has waited."""

    def __enter__(self) -> Prefetcher:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def next(self) -> Portion:
        started = time.perf_counter()
        with self._changed:
            while not self._ready:
                self._changed.wait()
            found = self._ready[0]
            if isinstance(found, BaseException):
                # Kept in the queue, so that a further ``next`` raises it again instead of blocking.
                raise found
            self._ready.popleft()
            self._changed.notify_all()
        self.waited += time.perf_counter() - started
        return found

    def _run(self) -> None:
        if self._device is not None:
            # A new thread uses the first CUDA device by default and would allocate memory there.
            torch.cuda.set_device(self._device)
        while True:
            with self._changed:
                while len(self._ready) >= self._depth and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            try:
                portion = self._source.next()
                found: Portion | BaseException = self._in_place(portion)
            except BaseException as error:
                found = error
            with self._changed:
                self._ready.append(found)
                self._changed.notify_all()
            if isinstance(found, BaseException):
                return

    def _in_place(self, portion: Portion) -> Portion:
        if self._device is None:
            return portion
        batches = tuple(batch.pinned() for batch in portion.batches)
        return Portion(batches, portion.amount, portion.begin, portion.end)
