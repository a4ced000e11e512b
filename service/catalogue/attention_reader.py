"""Computes attention and token log-probabilities of given sentence pairs, one at a time.

Runs on a low-priority thread and one core, so that requests for attention do not delay
translation. Callers take turns, see ``service.threads.fair_turns``. Works on token ids.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from models.bundle.manifest import SentenceLimits
from service.engine.errors import BackendFailed, EngineStopped, SentenceTooLong
from service.runtime.backend import AttentionMaps, TeacherForced
from service.threads.fair_turns import FairTurns
from service.threads.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)


class TargetTooLong(SentenceTooLong):
    """The translation has more tokens than the model can write; it is not truncated."""

    def __init__(self, length: int, limit: int) -> None:
        Exception.__init__(
            self, f"translation has {length} tokens; the model writes at most {limit}"
        )
        self.length = length
        self.limit = limit


def check_lengths(
    limits: SentenceLimits, source_ids: tuple[int, ...], target_ids: tuple[int, ...]
) -> None:
    """Raises ``SentenceTooLong`` or ``TargetTooLong`` above the lengths of a model."""
    if len(source_ids) > limits.source_length:
        raise SentenceTooLong(len(source_ids), limits.source_length)
    # A truncated translation may have one more.
    if len(target_ids) > limits.target_length - 1:
        raise TargetTooLong(len(target_ids) + 1, limits.target_length)


class AttentionReader:
    """Runs teacher forcing on one sentence at a time. Owns and closes its model."""

    def __init__(self, model: TeacherForced, limits: SentenceLimits) -> None:
        self._model = model
        self._limits = limits
        self._turns = FairTurns(1)
        self._thread = ThreadPoolExecutor(1, "attention", initializer=lower_thread_priority)
        self._closed = False

    def check(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> None:
        """Raises ``SentenceTooLong`` or ``TargetTooLong`` if ``read`` would."""
        check_lengths(self._limits, source_ids, target_ids)

    async def read(
        self, source_ids: tuple[int, ...], target_ids: tuple[int, ...], caller: str = ""
    ) -> AttentionMaps:
        """All attention maps of a sentence. Cancelling the call removes it from the queue.

        ``source_ids`` ends with ``eos``, ``target_ids`` has neither ``bos`` nor ``eos``. An unknown
        ``caller``, which is empty, takes no turns. Raises ``SentenceTooLong`` or ``TargetTooLong``
        above the model's lengths, ``BackendFailed`` if the model fails, and ``EngineStopped`` once
        it is closed.
        """
        self.check(source_ids, target_ids)
        async with self._turns.turn(caller or None):
            if self._closed:
                raise EngineStopped("the model has been closed")
            reading = self._thread.submit(self._read, source_ids, target_ids)
            return await asyncio.wrap_future(reading)

    async def close(self) -> None:
        """Finish the running call, fail the queued ones with ``EngineStopped``, free the model."""
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
        read = (maps.log_probs_T, maps.cross_LHTS, maps.entropies_T)
        if not all(np.isfinite(each).all() for each in read if each is not None):
            logger.error("the attention of a sentence is not made of numbers")
            raise BackendFailed("the model failed to look at this sentence")
        return maps
