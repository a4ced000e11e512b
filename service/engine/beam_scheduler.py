"""Scheduler of sentences whose beam search runs on the device, one step ahead of the host.

A sentence keeps its slot. A slot that becomes free stays empty until another sentence gets it, the
lowest first. The record of a launch is read after the next launch. A sentence that has ended
therefore computes one further step. An admitted sentence joins ``RankedSearch`` once the record of
the launch before its own first launch has been read.
"""

from __future__ import annotations

import heapq
from dataclasses import fields
from typing import Any

import numpy as np

from models.bundle.manifest import SpecialIds
from service.engine.errors import BackendFailed
from service.engine.ranked_search import RankedSearch
from service.engine.scheduler import BatchScheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import Admission, Beam, Candidates, Launch, Limits, Ranked

_KNOWN = frozenset(
    {
        "beam_size",
        "patience",
        "num_hypotheses",
        "length_penalty",
        "length_normalisation",
        "disable_unk",
        "min_decoding_length",
        "max_decoding_length",
        "all_finished",
        "return_scores",
        "seed",
        "sampling_topk",
        "sampling_topp",
        "sampling_temperature",
    }
)
"""Options of the device's search, and those of sampling, which ``independent`` names."""
_UNKNOWN = {each.name: each.default for each in fields(DecodingOptions) if each.name not in _KNOWN}
"""Options that must have their defaults."""


class BeamScheduler(BatchScheduler):
    """Plans for a ``service.runtime.backend.BeamBackend``."""

    def __init__(self, limits: Limits, special_ids: SpecialIds, **bounds: Any) -> None:
        """``bounds`` as of ``BatchScheduler``."""
        super().__init__(limits, special_ids, **bounds)
        self._search = RankedSearch(limits, special_ids)
        self._slots = np.zeros(limits.slots, np.int64)
        """Slot of each sentence in ``running``."""
        self._places = np.zeros(limits.slots, np.int64)
        """Place in ``running`` of each slot's sentence."""
        self._launched: list[int] = []
        """Slots of sentences that have been launched once, and join the search next."""
        self._rows = 0
        """Rows of all running beams."""
        self._free = list(range(limits.slots))

    @property
    def _searches(self) -> int:
        return self._search.count

    def accepts(self, options: DecodingOptions) -> bool:
        """Whether the rules of the device's search are all that the options need."""
        return (
            options.rows <= self.limits.rows_per_slot
            and not options.independent
            and all(getattr(options, name) == default for name, default in _UNKNOWN.items())
        )

    def dispensable(self) -> list[Sequence]:
        """The half in the highest slots, since a step computes all slots up to the highest."""
        order = np.argsort(self._slots[: len(self.running)])
        return [self.running[place] for place in order[len(self.running) // 2 :]]

    def _begin(self, admitted: list[Sequence]) -> Admission:
        slots = [heapq.heappop(self._free) for _ in admitted]
        first = len(self.running) - len(admitted)
        self._slots[first : len(self.running)] = slots
        self._places[slots] = np.arange(first, len(self.running))
        self._launched += slots
        beams = [
            Beam(each.options.rows, each.options.min_decoding_length, each.options.disable_unk)
            for each in admitted
        ]
        self._rows += sum(beam.rows for beam in beams)
        return Admission(slots, [each.source_ids for each in admitted], beams)

    def _step(self) -> Launch | None:
        if not self.running:
            return None
        return Launch(self._slots[: len(self.running)].copy(), self._rows)

    def _advance(self, found: Candidates | Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        assert isinstance(found, Ranked)
        over = self._search.advance(found)
        if self._launched:
            joined = [self.running[place].options for place in self._places[self._launched]]
            self._search.add(self._launched, joined)
            self._launched.clear()
        return [(int(self._places[slot]), outcome) for slot, outcome in over]

    def _vacate(self, place: int) -> None:
        slot = int(self._slots[place])
        heapq.heappush(self._free, slot)
        if slot in self._launched:
            self._launched.remove(slot)
        else:
            self._search.remove([slot])
        self._rows -= self.running[place].options.rows
        moved = self.running.pop()
        if place < len(self.running):
            self.running[place] = moved
            self._slots[place] = self._slots[len(self.running)]
            self._places[self._slots[place]] = place

    def check_integrity(self) -> None:
        super().check_integrity()
        slots = self._slots[: len(self.running)].tolist()
        assert sorted([*self._free, *slots]) == list(range(self.limits.slots))
        assert self._places[slots].tolist() == list(range(len(slots)))
        assert self._rows == sum(sequence.options.rows for sequence in self.running)
