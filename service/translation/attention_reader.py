"""Attention and token probabilities of a source and a target, one sentence after the other.

Runs beside the engine, on a thread of its own and one core: looking at translations makes nobody
wait who translates. Knows token ids; nothing of text.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from models.bundle.manifest import SentenceLimits
from service.engine.errors import BackendFailed, EngineStopped, SentenceTooLong
from service.runtime.backend import AttentionMaps, TeacherForced
from service.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)


class TargetTooLong(SentenceTooLong):
    """The model cannot write this translation whole, and nothing is cut silently."""

    def __init__(self, length: int, limit: int) -> None:
        Exception.__init__(
            self, f"translation has {length} tokens; the model writes at most {limit}"
        )
        self.length = length
        self.limit = limit


class AttentionReader:
    """Reads one sentence at a time with one model, which it owns and closes."""

    def __init__(self, model: TeacherForced, limits: SentenceLimits) -> None:
        self._model = model
        self._limits = limits
        self._thread = ThreadPoolExecutor(1, "attention", initializer=lower_thread_priority)
        self._closed = False

    @property
    def longest_target(self) -> int:
        """How many tokens a target may have. A translation that was cut may have one more."""
        return self._limits.target_length - 1

    def check(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> None:
        """Raises ``SentenceTooLong`` or ``TargetTooLong`` for what ``read`` would refuse."""
        if len(source_ids) > self._limits.source_length:
            raise SentenceTooLong(len(source_ids), self._limits.source_length)
        if len(target_ids) > self.longest_target:
            raise TargetTooLong(len(target_ids) + 1, self._limits.target_length)

    async def read(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        """Every map of a sentence. Cancelling the call takes it out of the line.

        ``source_ids`` ends with ``eos``, ``target_ids`` has neither ``bos`` nor ``eos``. Raises
        ``SentenceTooLong`` beyond what the model can read or write, ``BackendFailed`` if the model
        fails, and ``EngineStopped`` once it is closed.
        """
        self.check(source_ids, target_ids)
        if self._closed:
            raise EngineStopped("the model has been closed")
        reading = self._thread.submit(self._read, source_ids, target_ids)
        return await asyncio.wrap_future(reading)

    async def close(self) -> None:
        """Finish what is being read, refuse what waits, and free the model."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._thread.shutdown(wait=True)
        self._model.close()

    def _read(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        if self._closed:
            raise EngineStopped("the model has been closed")
        try:
            maps = self._model.run(source_ids, target_ids)
        # ONNX Runtime's exceptions have no common base but Exception.
        except Exception as error:
            logger.exception("the attention of a sentence could not be computed")
            raise BackendFailed("the model failed to look at this sentence") from error
        if not (np.isfinite(maps.log_probs_T).all() and np.isfinite(maps.cross_LHTS).all()):
            logger.error("the attention of a sentence is not made of numbers")
            raise BackendFailed("the model failed to look at this sentence")
        return maps
