"""Thread that writes a run's checkpoints while training goes on."""

from __future__ import annotations

import logging
from collections.abc import Set
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from training import checkpoint
from training.loop.event_log import RunLog, SilentLog

logger = logging.getLogger(__name__)


class CheckpointWriter:
    """Writes one checkpoint at a time, from a copy of the state, and prunes earlier ones.

    An error of the thread is raised by the next call of any method, and at the latest where the
    context ends.
    """

    def __init__(self, log: RunLog | SilentLog, keep: int) -> None:
        """``keep`` is the number of last checkpoints that pruning keeps."""
        self._log = log
        self._keep = keep
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def write(self, document: dict[str, Any], path: Path, spared: Set[int]) -> None:
        """Begin to write ``document``, which may change as soon as this returns.

        Waits for the checkpoint before, so that host memory holds one copy. ``spared`` are steps
        whose checkpoints pruning keeps, too.
        """
        self._wait()
        copied = checkpoint.snapshot(document)
        self._writing = self._thread.submit(self._write, copied, path, spared)

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written; waits for none."""
        if self._writing is not None and self._writing.done():
            self._wait()

    def _write(self, document: dict[str, Any], path: Path, spared: Set[int]) -> None:
        # A checkpoint must not be ahead of the log, whose lines up to it are not repeated.
        self._log.sync()
        checkpoint.save(document, path)
        checkpoint.prune(path.parent, self._keep, spared)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self._wait()
        except Exception as failure:
            if error is None:
                raise
            # The first error ends the run.
            logger.error("the last checkpoint could not be written: %s", failure)
        finally:
            self._thread.shutdown()
