"""Record of one iteration of the engine, for metrics. The engine itself keeps no statistics.

The engine thread hands each record to one observer function, after the iteration and before its
results are delivered. The function must return at once and never raise. A sentence is *in the
batch* from its admission to its departure. A sentence cancelled before admission was never in the
batch, and only the length of the waiting queue counts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from service.engine.types import FinishReason
from service.runtime.backend import CacheUse

LeaveReason = Literal["finished", "cancelled", "failed", "preempted", "displaced"]
"""``preempted``: moved back to the waiting queue because memory was short; ``displaced``: to make
room for a sentence of another caller."""
NO_CACHE = CacheUse(0, 0)


@dataclass(frozen=True, slots=True)
class Departure:
    """``count`` sentences freed their slots; ``running`` stay in the batch."""

    reason: LeaveReason
    count: int
    running: int


@dataclass(frozen=True, slots=True)
class Finished:
    """One decoded sentence. Token counts include ``eos`` where there is one."""

    reason: FinishReason
    source_tokens: int
    target_tokens: int


@dataclass(slots=True)
class Iteration:
    """Events since the previous record: commands first, then at most one iteration.

    Over all records, sentences admitted = sentences departed + running.
    """

    running: int = 0
    """Sentences in the batch just before the admission."""
    waited_seconds: list[float] = field(default_factory=list)
    """Waiting time of each admitted sentence in the queue."""
    encoded_tokens: int = 0
    padded_tokens: int = 0
    """Tokens of the encoded batch, padding included."""
    encode_seconds: float | None = None
    """``None`` without a successful encoding; likewise ``step_seconds``."""
    rows: int = 0
    """Hypotheses that grew by one token."""
    step_seconds: float | None = None
    departures: list[Departure] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    waiting_sentences: int = 0
    """Length of the waiting queue at the end; ``waiting_tokens`` in source tokens."""
    waiting_tokens: int = 0
    busy_seconds: float = 0.0
    """Duration of the iteration, successful or not."""
    cache: CacheUse = NO_CACHE
    """Use of the memory for keys and values; both numbers are 0 after shutdown."""
    died: bool = False
    """An unexpected exception ended the engine. Pending sentences fail, later ones too."""


Observe = Callable[[Iteration], None]
