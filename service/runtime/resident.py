"""ONNX Runtime backend whose graph keeps the beam searches on the device.

A step is a launch of the graph, a copy of its record to the host and an event behind it; then the
record of the step before is read, while the device computes. State, membership and records have two
buffers in turns, so that the host never writes what a queued copy reads. An empty slot computes,
too, and its numbers are ignored. Shapes: backend.py, memory.py, models/bundle/graphs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.graphs import (
    ALWAYS_BAR,
    BARS,
    DEAD,
    EOS_BAR,
    EXTRA_CANDIDATES,
    UNK_BAR,
)
from models.bundle.manifest import Dimensions, Precision
from service.runtime.backend import (
    Admission,
    Beam,
    CacheUse,
    Launch,
    Limits,
    Ranked,
    WarmUp,
)
from service.runtime.binding import HIDDEN, KeptBindings, Layout, visible_source
from service.runtime.encoder import source_encoder
from service.runtime.memory import Budget, HostMemory, Memory, RunOptions
from service.runtime.sessions import GraphSessions, opener, run
from service.runtime.variants import Variant
from service.runtime.warm_up import Shape, lengths, sizes, warm_up

_ORDERED_ENTRIES = 256
"""Up to this length, CUDA's TopK takes the lowest free entries of a cache first, and it grows in
powers of two. Beyond, every step of all sentences reads what the longest sentence needs."""
_MOST_SPARE = 4
"""A cache is shortened when it is this many times longer than needed."""
_MOST_PADDED = 1 << 12
"""Source tokens, padding included, of the encode that reserves memory."""

_Place = tuple[type[np.generic], tuple[int, ...], int]
"""Element type, shape and address of an array."""
_RECORD = ("rank_places", "rank_tokens", "rank_sums")


class _Bound(NamedTuple):
    binding: onnxruntime.IOBinding
    options: RunOptions


class ResidentBackend:
    """See ``service.runtime.backend.BeamBackend``."""

    def __init__(
        self,
        encoder: GraphSessions,
        step: onnxruntime.InferenceSession,
        dimensions: Dimensions,
        pad_id: int,
        limits: Limits,
        *,
        memory: Memory,
        cache_bytes: int,
        element: type[np.floating],
    ) -> None:
        self._step = step
        self._memory = memory
        self._pad_id = pad_id
        self._element = element
        self._hidden = HIDDEN[np.dtype(element).name]
        self._heads = dimensions.heads
        self._candidates = min(
            2 * limits.rows_per_slot + EXTRA_CANDIDATES, dimensions.vocabulary_size
        )
        rows, bucket = limits.rows_per_slot, memory.self_bucket
        if dimensions.recurrent:
            # Two states of each row, in turns read and written, take as much as a key and a value.
            self._fewest_entries = self._most_entries = 2 * rows
            most = rows
        else:
            # A sentence whose rows have nothing in common needs no more.
            most = -(-rows * (limits.target_length + 2) // bucket) * bucket
            self._fewest_entries, self._most_entries = bucket, most
        # With caches of the largest size, the budget is never exceeded.
        entries = most + limits.source_length + memory.cross_bucket
        slot_bytes = 2 * dimensions.decoder_layers * dimensions.width * np.dtype(element).itemsize
        slots = max(1, min(limits.slots, cache_bytes // (slot_bytes * entries)))
        self.limits = Limits(slots, rows, limits.source_length, limits.target_length)
        self._budget = Budget(cache_bytes)
        self._own = memory.pool("self", dimensions, slots, self._budget, element)
        self._cross = memory.pool("cross", dimensions, slots, self._budget, element)
        self._encoder = source_encoder(encoder, self._own, self._cross, memory, pad_id, self.limits)
        self._given = memory.exchange(), memory.exchange()
        """Positions and membership."""
        self._state = memory.exchange()
        self._records = memory.exchange(), memory.exchange()
        self._events = memory.event(), memory.event()
        self._encoded = memory.event()
        self._turn = 0
        self._stale_P = np.ones(slots, np.bool_), np.ones(slots, np.bool_)
        """Slots whose membership each block lacks."""
        self._bindings: KeptBindings[tuple[int, int], _Bound] = KeptBindings()
        self._launched_P = np.zeros(slots, np.bool_)
        """Slots of the last launch whose sentences are still there."""
        self._lengths_P = np.zeros(slots, np.int64)
        """Length of each source."""
        self._positions_P = np.zeros(slots, np.int64)
        self._highest_P = np.full(slots, -1)
        """Highest cache entry that each sentence has used, as far as records have been read."""
        self._members: dict[str, NDArray[Any]] = {
            "row_bias": np.zeros((slots, rows), np.float32),
            "powers": np.zeros((slots, 2 * rows, 1), np.float32),
            "first_lines": np.zeros((slots, 1, 1), np.int64),
            "min_lengths": np.zeros((slots, 1, 1), np.int64),
            "early_bars": np.zeros((slots, rows, BARS), element),
            "bars": np.zeros((slots, rows, BARS), element),
        }
        self._memberships: dict[Beam, dict[str, NDArray[Any]]] = {}
        """Rows of the members by beam."""
        self._searched = "sums", "tokens", "parents" if self._own.states else "self_bias"
        """State of the searches."""
        self._recorded = Layout()
        for name in _RECORD:
            number = np.float32 if name == "rank_sums" else np.int64
            self._recorded.add(name, (slots, 2 * rows), number)
        if not self._own.states:
            self._recorded.add("entries", (slots, rows), np.int64)
        (self._bias_rows,) = (n.shape[2] for n in step.get_inputs() if n.name == "cross_bias")
        # Reserved once, so that lengthening a cache can fail in its pool only.
        largest = self._most_entries, limits.source_length + memory.cross_bucket
        for record in self._records:
            record.reserve(self._recorded.end)
        self._recorded_arrays = tuple(
            {name: record.view(*place) for name, place in self._recorded.places.items()}
            for record in self._records
        )
        for given in self._given:
            given.reserve(self._given_layout(*largest).end)
        self._state.reserve(self._state_layout(self._most_entries).end)
        self._stated = Layout()
        self._resize(self._fewest_entries)

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        precision: Precision,
        *,
        slots: int,
        threads: int,
        cache_bytes: int = 1 << 30,
        memory: Memory | None = None,
    ) -> ResidentBackend:
        """Open and check the encoder and resident graphs of a precision.

        ``slots`` are reduced to those whose keys and values fit into ``cache_bytes``. Raises
        ``InvalidBundle`` as ``open_session`` does.
        """
        manifest = bundle.manifest
        memory = memory or HostMemory()
        opened = partial(opener(bundle, precision, memory=memory), capture=memory.captures)
        variant = Variant(threads)
        encoder = GraphSessions(
            partial(opened, graph="encoder", into_slots=memory.encodes_into_slots), variant
        )
        encoder.settle()
        step = opened(graph="resident", variant=variant)
        rows = {node.name: node for node in step.get_inputs()}["sums"].shape[1]
        return cls(
            encoder,
            step,
            manifest.dimensions,
            manifest.special_ids.pad,
            Limits(slots, rows, manifest.limits.source_length, manifest.limits.target_length),
            memory=memory,
            cache_bytes=cache_bytes,
            element=np.float16 if precision == "fp16" else np.float32,
        )

    def encode(self, batch: Admission) -> None:
        slots = list(batch.slots)
        # The record that has not been read is of the earlier sentences in these slots.
        self._launched_P[slots] = False
        lengths = [len(source) for source in batch.sources]
        longest = max(*lengths, int(self._lengths_P.max(where=self._launched_P, initial=0)))
        if self._cross.resize(longest, self.limits.slots):
            self._lay_out_given()
        # The last copies of source ids and slots may not have been made yet.
        self._encoded.wait()
        self._encoder.encode(slots, batch.sources)
        self._encoded.record()
        self._lengths_P[slots] = lengths
        self._positions_P[slots] = 0
        self._highest_P[slots] = -1
        alike: dict[Beam, list[int]] = {}
        for slot, beam in zip(slots, batch.beams, strict=True):
            alike.setdefault(beam, []).append(slot)
        for beam, places in alike.items():
            for name, value in self._membership(beam).items():
                self._members[name][places] = value
        for stale_P in self._stale_P:
            stale_P[slots] = True

    def step(self, batch: Launch) -> Ranked:
        if not self._own.states:
            self._fit(batch.slots)
        return self._launch(batch.slots)

    def _launch(self, slots: NDArray[np.int64]) -> Ranked:
        sentences = self._memory.batch_size(int(slots.max()) + 1, self.limits.slots)
        turn, other = self._turn, 1 - self._turn
        bound = self._bindings.get((sentences, turn), partial(self._bound, sentences, turn))
        if self._stale_P[turn].any():
            self._send(turn)
        run(self._step, bound.binding, bound.options)
        self._records[turn].receive(self._recorded.end)
        self._events[turn].record()
        advanced = self._positions_P[:sentences]
        advanced += 1
        np.minimum(advanced, self.limits.target_length - 1, out=advanced)
        self._turn = other
        self._events[other].wait()
        record = self._recorded_arrays[other]
        if not self._own.states:
            for entries_P in record["entries"].T:
                np.maximum(self._highest_P, entries_P, out=self._highest_P, where=self._launched_P)
        self._launched_P[...] = False
        self._launched_P[slots] = True
        return Ranked(
            record["rank_places"], self._candidates, record["rank_tokens"], record["rank_sums"]
        )

    def cache_use(self) -> CacheUse:
        return self._budget.use

    def check(self) -> None:
        self._memory.check()

    def reserve(self) -> None:
        own, cross = list(self._lengths())[-1]
        with self._memory.uncaptured():
            self._run_shape(Shape(own, cross, self.limits.slots), _MOST_PADDED)
        self._settle()

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        shapes = [
            Shape(own, cross, sentences)
            for own, cross in self._lengths()
            for sentences in sizes(self._memory, self.limits.slots)
        ]
        done = warm_up(shapes, lambda shape: self._run_shape(shape, padded_tokens), seconds)
        self._settle()
        return done

    def _lengths(self) -> Iterator[tuple[int, int]]:
        return lengths(self._most_entries, self.limits.source_length)

    def _run_shape(self, shape: Shape, padded_tokens: int) -> None:
        """Encode and step synthetic sentences, with both turns of the buffers."""
        if self._own.length != shape.own:
            self._resize(shape.own)
        if self._cross.resize(shape.cross, self.limits.slots):
            self._lay_out_given()
        count = max(1, min(shape.sentences, padded_tokens // shape.cross))
        if self._memory.batch_size(count, self.limits.slots) == count:
            source, beam = (self._pad_id,) * shape.cross, Beam(1, 0, bar_unk=False)
            self.encode(Admission(range(count), [source] * count, [beam] * count))
        for _ in range(2):
            self._launch(np.arange(shape.sentences))

    def _settle(self) -> None:
        """Forget the sentences of ``_run_shape``, and shorten the caches to the shortest."""
        self._memory.wait()
        self._launched_P[...] = False
        self._lengths_P[...] = 0
        self._cross.resize(1, self.limits.slots)
        self._resize(self._fewest_entries)

    def _membership(self, beam: Beam) -> dict[str, NDArray[Any]]:
        """Inputs of the graph for a sentence with this beam."""
        if beam not in self._memberships:
            ranks = np.arange(2 * self.limits.rows_per_slot)
            bars = np.zeros(self._members["bars"].shape[1:], self._element)
            bars[:, UNK_BAR] = beam.bar_unk
            bars[:, ALWAYS_BAR] = 1
            early_bars = bars.copy()
            early_bars[:, EOS_BAR] = 1
            self._memberships[beam] = {
                "row_bias": np.where(ranks[: len(ranks) // 2] < beam.rows, 0, DEAD),
                "powers": np.where(ranks < 2 * beam.rows, 2.0**ranks, 0)[:, None],
                # The table of this width begins behind those of 4^1, 4^2, … lines.
                "first_lines": np.array((4**beam.rows - 4) // 3),
                "min_lengths": np.array(beam.min_length),
                "early_bars": early_bars,
                "bars": bars,
            }
        return self._memberships[beam]

    def close(self) -> None:
        self._memory.wait()
        self._bindings.clear()
        blocks = *self._given, self._state, *self._records
        for part in (self._encoder, *blocks, *self._events, self._encoded):
            part.close()
        self._own.release()
        self._cross.release()
        # Tracebacks of failed calls may hold on to the backend for a while yet.
        del self._encoder, self._step
        self._memory.close()

    def _fit(self, slots: NDArray[np.int64]) -> None:
        """Lengthen or shorten the caches: in powers of two, and beyond 256 entries in steps of 256.

        A sentence needs no more entries than its rows have had tokens, and none above the highest
        in use and those of the two launches whose records have not been read.
        """
        rows = self.limits.rows_per_slot
        highest_S = self._highest_P[slots]
        unread_S = highest_S + 1 + 2 * rows
        needed = int(np.minimum(unread_S, rows * (self._positions_P[slots] + 1)).max())
        length = self._fewest_entries
        while length < min(needed, _ORDERED_ENTRIES):
            length *= 2
        if needed > _ORDERED_ENTRIES:
            length = -(-needed // _ORDERED_ENTRIES) * _ORDERED_ENTRIES
        length = min(length, self._most_entries)
        unused = length * _MOST_SPARE <= self._own.length and int(unread_S.max()) <= length
        if length > self._own.length or unused:
            self._resize(length)

    def _resize(self, length: int) -> None:
        """Give caches and what their rows see another length; waits for the device."""
        kept = {}
        if self._own.length:
            self._state.receive(self._stated.end)
            self._memory.wait()
            kept = {name: self._state.view(*p).copy() for name, p in self._stated.places.items()}
        self._own.resize(length, self.limits.slots)
        self._stated = self._state_layout(self._own.length)
        for name, place in self._stated.places.items():
            array = self._state.view(*place)
            array[...] = self._hidden if name.startswith("self_bias") else 0
            if name in kept:
                shared = ..., slice(min(array.shape[-1], kept[name].shape[-1]))
                array[shared] = kept[name][shared]
        self._state.send(0, self._stated.end)
        self._lay_out_given()

    def _state_layout(self, entries: int) -> Layout:
        slots, rows, layout = self.limits.slots, self.limits.rows_per_slot, Layout()
        for turn in range(2):
            layout.add(f"sums {turn}", (slots, rows), np.float32)
            layout.add(f"tokens {turn}", (slots, rows), np.int64)
            if self._own.states:
                layout.add(f"parents {turn}", (slots, rows), np.int64)
            else:
                layout.add(f"self_bias {turn}", (slots, rows, entries), self._element)
        return layout

    def _lay_out_given(self) -> None:
        """Place positions, membership and constants for the present lengths of the caches."""
        self._places = self._given_layout(self._own.length, self._cross.length)
        self._given_arrays: list[dict[str, NDArray[Any]]] = [{}, {}]
        for stale_P in self._stale_P:
            stale_P[...] = True
        self._bindings.clear()

    def _given_layout(self, entries: int, sources: int) -> Layout:
        slots, layout = self.limits.slots, Layout()
        layout.add("positions", (slots, 1), np.int64)
        for name, array in self._members.items():
            layout.add(name, array.shape, array.dtype.type)
        layout.add("cross_bias", (slots, 1, self._bias_rows, sources), self._element)
        # Constants, which are sent once.
        if self._own.states:
            layout.add("first_reads", (slots, 1), np.int64)
            layout.add("state_writes", (slots, self.limits.rows_per_slot), np.int64)
        else:
            layout.add("entry_numbers", (entries,), np.int64)
            layout.add("write_base", (slots, 1, self._heads, 3), np.int64)
        return layout

    def _send(self, turn: int) -> None:
        """Copy positions and membership to the device; after a change of lengths, constants too."""
        arrays = self._given_arrays[turn]
        end, _, _ = self._places.places["first_reads" if self._own.states else "entry_numbers"]
        if not arrays:
            arrays = self._given_arrays[turn] = self._constants(turn)
            end = self._places.end
        # Copying all slots takes less time than choosing the stale ones.
        for name, array in self._members.items():
            arrays[name][...] = array
        arrays["positions"][:, 0] = self._positions_P
        slots = np.flatnonzero(self._stale_P[turn])
        seen_SS = visible_source(self._lengths_P[slots], self._cross.length)
        bias_SS = np.where(seen_SS, self._element(0), self._element(self._hidden))
        arrays["cross_bias"][slots, 0] = bias_SS[:, None]
        self._given[turn].send(0, end)
        self._stale_P[turn][...] = False

    def _constants(self, turn: int) -> dict[str, NDArray[Any]]:
        """The arrays of a block by name, with the constants of the present lengths."""
        block, rows = self._given[turn], self.limits.rows_per_slot
        arrays = {name: block.view(*place) for name, place in self._places.places.items()}
        if self._own.states:
            first_P1 = np.arange(self.limits.slots)[:, None] * 2 * rows
            arrays["first_reads"][...] = first_P1 + (1 - turn) * rows
            arrays["state_writes"][...] = first_P1 + turn * rows + np.arange(rows)
            return arrays
        arrays["entry_numbers"][...] = np.arange(self._own.length)
        write_base_PHI = arrays["write_base"][:, 0]
        write_base_PHI[..., 0] = np.arange(self.limits.slots)[:, None]
        write_base_PHI[..., 1] = np.arange(self._heads)
        write_base_PHI[..., 2] = 0
        return arrays

    def _bound(self, sentences: int, turn: int) -> _Bound:
        """The binding of a turn for the first slots, and the options of its runs."""
        binding = self._step.io_binding()
        memory = self._memory
        places = [address for pool in (self._own, self._cross) for _, address in pool.arrays()]
        places += [block.address for block in (*self._given, self._state, *self._records)]
        identity = sentences, turn, self._own.length, self._cross.length, *places
        for name, place in self._inputs(sentences, turn):
            binding.bind_input(name, memory.device, memory.device_id, *place)
        for name, place in self._outputs(sentences, turn):
            binding.bind_output(name, memory.device, memory.device_id, *place)
        return _Bound(binding, memory.graph_options(identity))

    def _inputs(self, sentences: int, turn: int) -> Iterator[tuple[str, _Place]]:
        for name in self._places.places:
            count = None if name == "entry_numbers" else sentences
            yield name, _place(self._places, name, self._given[turn].address, count)
        for name in self._searched:
            yield name, _place(self._stated, f"{name} {turn}", self._state.address, sentences)
        for pool in (self._own, self._cross):
            for name, address in pool.arrays():
                yield name, (pool.element, pool.shape(sentences), address)

    def _outputs(self, sentences: int, turn: int) -> Iterator[tuple[str, _Place]]:
        other = 1 - turn
        address = self._given[other].address
        yield "next_positions", _place(self._places, "positions", address, sentences)
        for name in self._searched:
            place = _place(self._stated, f"{name} {other}", self._state.address, sentences)
            yield f"next_{name}", place
        for name in self._recorded.places:
            yield name, _place(self._recorded, name, self._records[turn].address, sentences)
        for name, address in self._own.arrays():
            yield f"updated_{name}", (self._own.element, self._own.shape(sentences), address)


def _place(layout: Layout, name: str, address: int, sentences: int | None) -> _Place:
    """An array for the first sentences, or whole."""
    offset, shape, dtype = layout.places[name]
    if sentences is not None:
        shape = sentences, *shape[1:]
    return dtype, shape, address + offset
