"""Scheduler of sentences whose beam search runs on the device, one step ahead of the host.

A sentence keeps its slot. A slot that becomes free stays empty until another sentence gets it, the
lowest first. What a launch has ranked is read after the next launch, so that a sentence computes
one step too many before the host knows that it has ended, and a new sentence joins ``Search`` only
after the record of the launch before its first one has been read.
"""

from __future__ import annotations

import heapq
from typing import Any

from models.bundle.manifest import SpecialIds
from service.engine.errors import BackendFailed
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import Admission, Beam, Candidates, Launch, Limits, Ranked


class BeamScheduler(Scheduler):
    """Plans for a ``service.runtime.backend.BeamBackend``."""

    def __init__(self, limits: Limits, special_ids: SpecialIds, **bounds: Any) -> None:
        """``bounds`` as of ``Scheduler``."""
        super().__init__(limits, special_ids, **bounds)
        self._slots: list[int] = []
        """Of each sentence in ``running``. Those behind the searches have been launched once."""
        self._free = list(range(limits.slots))

    def accepts(self, options: DecodingOptions) -> bool:
        """Whether the rules of the device's search are all that the options need."""
        return (
            options.rows <= self.limits.rows_per_slot
            and not options.samples
            and not options.target_prefix
            and not options.suppress_sequences
            and options.repetition_penalty == 1
            and options.no_repeat_ngram_size == 0
            and options.coverage_penalty == 0
            and options.prefix_bias_beta == 0
        )

    def _begin(self, admitted: list[Sequence]) -> Admission:
        slots = [heapq.heappop(self._free) for _ in admitted]
        self._slots += slots
        beams = [
            Beam(each.options.rows, each.options.min_decoding_length, each.options.disable_unk)
            for each in admitted
        ]
        return Admission(slots, [each.source_ids for each in admitted], beams)

    def _step(self) -> Launch | None:
        rows = sum(sequence.options.rows for sequence in self.running)
        return Launch(list(self._slots), rows) if self.running else None

    def _advance(self, found: Candidates | Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        assert isinstance(found, Ranked)
        over: list[tuple[int, Decoded | BackendFailed]] = []
        if self._search.count:
            slots = self._slots[: self._search.count]
            over = self._search.advance_ranked(
                found.rows_PR[slots], found.tokens_PR[slots], found.sums_PR[slots]
            )
        for sequence in self.running[self._search.count :]:
            self._search.add(sequence.options, sequence.source_length)
        return over

    def _vacate(self, place: int) -> None:
        heapq.heappush(self._free, self._slots[place])
        last = self._search.remove(place) if place < self._search.count else place
        self.running[place], self._slots[place] = self.running[last], self._slots[last]
        del self.running[last], self._slots[last]

    def check_integrity(self) -> None:
        super().check_integrity()
        assert len(self._slots) == len(self.running)
        assert sorted([*self._free, *self._slots]) == list(range(self.limits.slots))
