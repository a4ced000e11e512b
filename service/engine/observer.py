"""What an engine tells whoever watches it. The engine itself keeps no statistics.

Every call comes from the engine's thread, between two steps: an observer returns at
once and never raises. Sentences are *in the batch* from ``joined`` to ``left``; those
cancelled while they still wait were never in it, and only ``waiting`` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from service.engine.types import FinishReason

LeaveReason = Literal["finished", "cancelled", "failed", "preempted"]
"""``preempted``: back to the line, because memory was short."""


class EngineObserver(Protocol):
    """The books balance at every moment: all who joined have left or are running."""

    def joined(self, count: int, waited_seconds: Sequence[float], running: int) -> None:
        """``count`` sentences got a slot; ``running`` were in the batch before them."""

    def encoded(self, sentences: int, padded_tokens: int, tokens: int, seconds: float) -> None:
        """Newcomers were encoded as one rectangle of ``padded_tokens``."""

    def stepped(self, rows: int, sentences: int, seconds: float) -> None:
        """``rows`` hypotheses of ``sentences`` sentences grew by one token."""

    def left(self, reason: LeaveReason, count: int, running: int) -> None:
        """``count`` sentences gave their slots back; ``running`` stay in the batch."""

    def finished(self, reason: FinishReason, source_tokens: int, target_tokens: int) -> None:
        """One sentence was translated. ``eos`` counts on both sides where there is one."""

    def waiting(self, sentences: int, tokens: int) -> None:
        """The waiting line is this long, in sentences and in source tokens."""

    def worked(self, seconds: float) -> None:
        """An iteration took so long: the engine was busy, whatever came of it."""

    def cached(self, taken: int, limit: int) -> None:
        """Keys and values take ``taken`` bytes from here on, of ``limit``; both 0 at the end."""

    def died(self) -> None:
        """A bug has ended the engine. Whoever was in it is told; nobody is served by it again."""


class SilentObserver:
    """Hears everything and says nothing."""

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
