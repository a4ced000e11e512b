"""Observer interface of the engine, for metrics. The engine itself keeps no statistics.

Every call comes from the engine thread, between two steps. An observer must return at once and
never raise. A sentence is *in the batch* from ``joined`` to ``left``. A sentence cancelled before
admission was never in the batch, and only ``waiting`` counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from service.engine.types import FinishReason

LeaveReason = Literal["finished", "cancelled", "failed", "preempted"]
"""``preempted``: moved back to the waiting line, because memory was short."""


class EngineObserver(Protocol):
    """Receives engine events. At any time, sentences joined = sentences left + running."""

    def joined(self, count: int, waited_seconds: Sequence[float], running: int) -> None:
        """``count`` sentences got a slot; ``running`` were in the batch before them."""

    def encoded(self, sentences: int, padded_tokens: int, tokens: int, seconds: float) -> None:
        """Newly admitted sentences were encoded as one batch of ``padded_tokens``."""

    def stepped(self, rows: int, sentences: int, seconds: float) -> None:
        """``rows`` hypotheses of ``sentences`` sentences grew by one token."""

    def left(self, reason: LeaveReason, count: int, running: int) -> None:
        """``count`` sentences freed their slots; ``running`` stay in the batch."""

    def finished(self, reason: FinishReason, source_tokens: int, target_tokens: int) -> None:
        """One sentence was decoded. Token counts include ``eos`` where there is one."""

    def waiting(self, sentences: int, tokens: int) -> None:
        """Length of the waiting line, in sentences and in source tokens."""

    def worked(self, seconds: float) -> None:
        """Duration of one iteration, successful or not."""

    def cached(self, taken: int, limit: int) -> None:
        """The key/value cache takes ``taken`` of ``limit`` bytes; both are 0 after shutdown."""

    def died(self) -> None:
        """An unexpected exception ended the engine. Pending sentences fail, later ones too."""


class SilentObserver:
    """Observer that ignores every event."""

    def joined(self, count: int, waited_seconds: Sequence[float], running: int) -> None:
        pass

    def encoded(self, sentences: int, padded_tokens: int, tokens: int, seconds: float) -> None:
        pass

    def stepped(self, rows: int, sentences: int, seconds: float) -> None:
        pass

    def left(self, reason: LeaveReason, count: int, running: int) -> None:
        pass

    def finished(self, reason: FinishReason, source_tokens: int, target_tokens: int) -> None:
        pass

    def waiting(self, sentences: int, tokens: int) -> None:
        pass

    def worked(self, seconds: float) -> None:
        pass

    def cached(self, taken: int, limit: int) -> None:
        pass

    def died(self) -> None:
        pass
