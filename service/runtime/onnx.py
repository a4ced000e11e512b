"""ONNX Runtime backend: encodes and decodes batches with in-place key/value caches.

A sentence has one self-attention cache, shared by its rows. A step writes one entry per row into
entries that no live row sees. An additive mask shows each row the entries of its own ancestors. So
forking beams reorders and concatenates nothing, and entries that no live row sees are free again.
A row of a network with SSRU has one state for each layer instead, and reads that of its parent.
I/O bindings of a step are kept for later steps of the same shape. Shapes: backend.py, memory.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from models.bundle.bundle import Bundle
from models.bundle.graphs import EXTRA_CANDIDATES
from models.bundle.manifest import Dimensions, Precision
from models.bundle.shortlist import Shortlist
from service.runtime.backend import CacheUse, Candidates, EncodeBatch, Limits, StepBatch, WarmUp
from service.runtime.binding import (
    Ancestry,
    BatchShortlist,
    KeptBindings,
    RowStates,
    StepBinding,
)
from service.runtime.encoder import source_encoder
from service.runtime.memory import Budget, CacheFull, HostMemory, Memory, Pool
from service.runtime.sessions import GraphSessions, opener, overflows
from service.runtime.variants import Choice, Variant
from service.runtime.warm_up import Shape, lengths, sizes, warm_up

logger = logging.getLogger(__name__)

_MOST_PADDED = 1 << 12
"""Source tokens, padding included, of the encode that reserves memory."""


class OnnxBackend:
    """See ``service.runtime.backend.Backend``."""

    def __init__(
        self,
        encoder: GraphSessions,
        step: GraphSessions,
        dimensions: Dimensions,
        pad_id: int,
        limits: Limits,
        *,
        memory: Memory,
        cache_bytes: int,
        element: type[np.floating],
        shortlist: Shortlist | None,
        usual_rows: int,
    ) -> None:
        """``usual_rows``: beam size of the batches that ``warm_up`` runs."""
        self.limits = limits
        self._usual_rows = min(usual_rows, limits.rows_per_slot)
        self._pad_id = pad_id
        self._step = step
        self._vocabulary_size = dimensions.vocabulary_size
        self._memory = memory
        self._budget = budget = Budget(cache_bytes)
        self._own = memory.pool("self", dimensions, limits.slots, budget, element)
        self._cross = memory.pool("cross", dimensions, limits.slots, budget, element)
        self._encodings = encoder
        self._encoder = source_encoder(encoder, self._own, self._cross, memory, pad_id, limits)
        self._inputs, self._outputs = memory.exchange(), memory.exchange()
        self._ancestry: Ancestry | RowStates
        if self._own.states:
            self._ancestry = RowStates(limits.slots, limits.rows_per_slot)
            self._own.resize(2 * limits.rows_per_slot, 0)
        else:
            self._ancestry = Ancestry(limits.slots, limits.rows_per_slot)
        self._shortlist = BatchShortlist(shortlist, limits.slots) if shortlist else None
        self._source_lengths_P = np.zeros(limits.slots, np.int64)
        self._in_use = 0
        self._poisoned = False
        """Whether keys or values may contain NaN."""
        self._membership = 0
        """Counter that changes with the sentences in the slots."""
        self._bindings: KeptBindings[tuple[Variant, int, int, int], StepBinding] = KeptBindings()

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        precision: Precision,
        *,
        slots: int,
        rows_per_slot: int,
        threads: int,
        cache_bytes: int = 1 << 30,
        memory: Memory | None = None,
        shortlist: Shortlist | None = None,
        choose: Callable[[OnnxBackend, Variant], Choice] | None = None,
    ) -> OnnxBackend:
        """Open and check the encoder and step graphs of a precision.

        ``threads`` 0 means one for each core. The graphs run where ``memory`` is, on the CPU by
        default. Keys and values take at most ``cache_bytes``. A ``shortlist`` restricts the target
        tokens of every sentence. ``choose`` gets the backend and the variant that is open, and
        returns those to use. Raises ``InvalidBundle`` as ``open_session`` does, and
        ``ValueError`` for a shortlist in fp16, whose graphs use none.
        """
        if shortlist is not None and precision == "fp16":
            raise ValueError("graphs in fp16 use no shortlist")
        manifest = bundle.manifest
        memory = memory or HostMemory()
        if precision == "int8" and overflows(manifest):
            logger.info(
                "this CPU has no VNNI: int8 products of %s take a slower, exact way", manifest.name
            )
        # The graphs of other precisions have branches, which cannot be captured.
        opened = partial(
            opener(bundle, precision, memory=memory),
            capture=memory.captures and precision == "fp16",
        )
        usual = Variant(threads)
        encode = partial(opened, graph="encoder", into_slots=memory.encodes_into_slots)
        backend = cls(
            GraphSessions(encode, usual),
            GraphSessions(partial(opened, graph="step"), usual),
            manifest.dimensions,
            manifest.special_ids.pad,
            Limits(
                slots=slots,
                rows_per_slot=rows_per_slot,
                source_length=manifest.limits.source_length,
                target_length=manifest.limits.target_length,
            ),
            memory=memory,
            cache_bytes=cache_bytes,
            element=np.float16 if precision == "fp16" else np.float32,
            shortlist=shortlist,
            usual_rows=manifest.decoding.beam_size,
        )
        backend._settle(choose(backend, usual) if choose else Choice(usual))
        return backend

    @property
    def opening_seconds(self) -> float:
        """How long the graph of the step took to open."""
        return self._step.opening_seconds

    def use(self, choice: Choice) -> None:
        """Run steps by a choice, whose variants are opened if ``choose`` of ``load`` is running."""
        self._step.use(choice)

    def _settle(self, choice: Choice) -> None:
        """Run all graphs by the choice, and forget what has been measured."""
        for graph in (self._encodings, self._step):
            graph.use(choice)
            graph.settle()
        self._bindings.clear()
        self._keep(0)

    def encode(self, batch: EncodeBatch) -> None:
        first, count = batch.first_slot, len(batch.sources)
        self._keep(first)
        lengths = [len(source) for source in batch.sources]
        self._resize(self._cross, max(*lengths, self._longest_source()), first, first + count)
        if not self._own.states:
            self._resize(self._own, self._own.length, first, first + count)
        self._encoder.encode(range(first, first + count), batch.sources)
        self._memory.wait()
        self._ancestry.clear(first, count)
        if self._shortlist is not None:
            self._shortlist.put(first, batch.sources)
        self._source_lengths_P[first : first + count] = lengths
        self._in_use = first + count
        self._membership += 1

    def step(self, batch: StepBatch) -> Candidates:
        sentences, rows = batch.parents_BK.shape
        self._keep(sentences)
        entries_BK = self._ancestry.append(batch.parents_BK)
        if not self._own.states:
            needed = int(entries_BK.max()) + 1
            if needed > self._own.length:
                self._resize(self._own, needed, sentences, sentences)
        binding = self._binding(sentences, rows, batch.num_candidates)
        candidates = binding.run(
            batch,
            entries_BK,
            self._source_lengths_P,
            self._shortlist,
            self._membership,
        )
        self._ancestry.commit()
        self._poisoned |= bool(np.isnan(candidates.log_probs_BKN).any())
        return candidates

    def move(self, origin: int, slot: int) -> None:
        if self._poisoned:
            # Only used entries are copied, and the slot may hold NaN of an earlier sentence.
            self._own.clear([slot])
            self._cross.clear([slot])
        self._own.move(origin, slot, self._ancestry.highest(slice(origin, origin + 1)))
        self._cross.move(origin, slot, int(self._source_lengths_P[origin]))
        self._ancestry.move(origin, slot)
        if self._shortlist is not None:
            self._shortlist.move(origin, slot)
        self._source_lengths_P[slot] = self._source_lengths_P[origin]
        self._membership += 1

    def cache_use(self) -> CacheUse:
        return self._budget.use

    def check(self) -> None:
        self._memory.check()

    def reserve(self) -> None:
        own, cross = list(self._lengths())[-1]
        with self._memory.uncaptured():
            self._run_shape(Shape(own, cross, self.limits.slots), _MOST_PADDED)
        self._forget()

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        shapes = [
            Shape(own, cross, sentences)
            for own, cross in self._lengths()
            for sentences in sizes(self._memory, self.limits.slots)
        ]
        done = warm_up(shapes, lambda shape: self._run_shape(shape, padded_tokens), seconds)
        self._forget()
        return done

    def _lengths(self) -> Iterator[tuple[int, int]]:
        rows = self.limits.rows_per_slot
        return lengths(rows * (self.limits.target_length + 2), self.limits.source_length)

    def _run_shape(self, shape: Shape, padded_tokens: int) -> None:
        """Encode and step synthetic sentences of the usual beam."""
        sentences = shape.sentences
        self._resize(self._own, shape.own, 0, sentences)
        count = max(1, min(sentences, padded_tokens // shape.cross))
        self.encode(EncodeBatch(0, [(self._pad_id,) * shape.cross] * count))
        parents_BK = np.zeros((sentences, self._usual_rows), np.int32)
        positions_B = np.zeros(sentences, np.int32)
        tokens_BK = np.full_like(parents_BK, self._pad_id)
        self.step(
            StepBatch(parents_BK, tokens_BK, positions_B, 2 * self._usual_rows + EXTRA_CANDIDATES)
        )

    def _forget(self) -> None:
        """Discard the sentences of ``_run_shape``."""
        self._poisoned = False
        self._in_use = self.limits.slots
        self._ancestry.clear(0, self.limits.slots)
        self._source_lengths_P[...] = 0
        self._keep(0)

    def close(self) -> None:
        self._bindings.clear()
        for part in (self._encoder, self._inputs, self._outputs):
            part.close()
        self._own.release()
        self._cross.release()
        # Tracebacks of failed calls may hold on to the backend for a while yet.
        del self._encoder, self._encodings, self._step
        self._memory.close()

    def _keep(self, slots: int) -> None:
        """Discard sentences beyond the first ``slots``, and shrink the pools to fit."""
        if self._poisoned:
            # The sentence with NaN has just left; other sentences may reuse its entries.
            for pool in (self._own, self._cross):
                pool.clear(range(slots, self.limits.slots))
            self._poisoned = False
        if slots >= self._in_use:
            return
        self._in_use = slots
        self._membership += 1
        own = not self._own.states and self._own.resize(
            self._ancestry.highest(slice(slots)) + self.limits.rows_per_slot, slots, slots
        )
        cross = self._cross.resize(self._longest_source(), slots, slots)
        if own or cross:
            self._bindings.clear()

    def _resize(self, pool: Pool, needed: int, used_slots: int, wanted_slots: int) -> None:
        """Resize a pool, if necessary by what both hold for slots that are not used."""
        try:
            changed = pool.resize(needed, used_slots, wanted_slots)
        except CacheFull:
            for each in (self._own, self._cross):
                if not each.states:
                    each.trim(used_slots)
            self._bindings.clear()
            changed = pool.resize(needed, used_slots, wanted_slots)
        if changed:
            self._bindings.clear()

    def _longest_source(self) -> int:
        return int(self._source_lengths_P[: self._in_use].max(initial=0))

    def _binding(self, sentences: int, rows: int, num_candidates: int) -> StepBinding:
        columns, batch = self._vocabulary_size, sentences
        if self._shortlist is None:
            batch = self._memory.batch_size(sentences, self.limits.slots)
        else:
            columns = self._shortlist.size(sentences, self._membership)
        variant, session = self._step.of(batch * rows)
        shape = batch, rows, min(num_candidates, columns)
        return self._bindings.get(
            (variant, *shape),
            lambda: StepBinding(
                session,
                self._own,
                self._cross,
                self._ancestry,
                self._memory,
                self._inputs,
                self._outputs,
                *shape,
            ),
        )
