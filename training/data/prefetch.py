"""Background thread that prefetches batches for the training loop."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
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
        self._thread = ThreadPoolExecutor(1, "prefetch", initializer=self._choose_device)
        self._fetches: deque[Future[Portion]] = deque()
        self.waited = 0.0
        """Total seconds that ``next`` has waited."""

    def __enter__(self) -> Prefetcher:
        for _ in range(self._depth):
            self._fetches.append(self._thread.submit(self._fetch))
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def next(self) -> Portion:
        started = time.perf_counter()
        # A failed fetch stays first, so that a further ``next`` raises its exception again.
        found = self._fetches[0].result()
        self._fetches.popleft()
        self._fetches.append(self._thread.submit(self._fetch))
        self.waited += time.perf_counter() - started
        return found

    def _choose_device(self) -> None:
        if self._device is not None:
            # A new thread uses the first CUDA device by default and would allocate memory there.
            torch.cuda.set_device(self._device)

    def _fetch(self) -> Portion:
        return self._in_place(self._source.next())

    def _in_place(self, portion: Portion) -> Portion:
        if self._device is None:
            return portion
        batches = tuple(batch.pinned() for batch in portion.batches)
        return Portion(batches, portion.amount, portion.begin, portion.end)
