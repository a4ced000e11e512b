"""Encodes sources into their slots of both pools. Shapes: backend.py, memory.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import onnxruntime

from service.runtime.backend import Limits
from service.runtime.binding import KeptBindings, Layout, visible_source
from service.runtime.memory import HostPool, Memory, Pool
from service.runtime.sessions import GraphSessions, run

_FEW_TOKENS = 128
"""Batch size in tokens below which encoding time hardly depends on the number of tokens."""
_PADDING = 1.2
"""Largest ratio of the longest to the shortest source in one encoder batch above that size."""

Ids = tuple[int, ...]
P = TypeVar("P", bound=Pool)


class SourceEncoder(ABC, Generic[P]):
    """Owns the encoder's sessions and the exchange block of its inputs."""

    def __init__(
        self,
        sessions: GraphSessions,
        own: P,
        cross: P,
        memory: Memory,
        pad_id: int,
        limits: Limits,
    ) -> None:
        self._sessions = sessions
        self._own, self._cross = own, cross
        self._memory = memory
        self._pad_id = pad_id
        self._source_length = limits.source_length
        self._slots = limits.slots
        self._inputs = memory.exchange()

    @abstractmethod
    def encode(self, slots: Sequence[int], sources: Sequence[Ids]) -> None:
        """Write keys and values of each source, and a cache of zeros, into its slot.

        The slots are long enough. The caller waits for the device's work up to here before the next
        call.
        """

    def close(self) -> None:
        self._inputs.close()

    def _write(self, sources: Sequence[Ids], shape: tuple[int, int]) -> None:
        """Write padded source ids to the beginning of the host's block."""
        source_ids_BS = self._inputs.view(0, shape, np.int32)
        source_ids_BS[...] = self._pad_id
        written_BS = visible_source(np.array([len(source) for source in sources]), shape[1])
        source_ids_BS[written_BS] = np.fromiter(chain.from_iterable(sources), np.int32)


class HostEncoder(SourceEncoder[HostPool]):
    """Encodes batches of similar lengths. Copies what is not for consecutive slots."""

    def encode(self, slots: Sequence[int], sources: Sequence[Ids]) -> None:
        for places in alike([len(source) for source in sources]):
            self._encode([slots[place] for place in places], [sources[place] for place in places])
        # Keys and values of an earlier sentence may be NaN, which no mask hides.
        self._own.clear(slots)

    def _encode(self, slots: list[int], sources: list[Ids]) -> None:
        """Encode some of the sentences as one padded batch."""
        count, bucket = len(sources), self._memory.cross_bucket
        # The network has no positions beyond the limit.
        padded = -(-max(map(len, sources)) // bucket) * bucket
        shape = count, min(padded, self._source_length)
        length = shape[1]
        self._inputs.reserve(count * length * np.dtype(np.int32).itemsize)
        self._write(sources, shape)
        _, session = self._sessions.of(count * length)
        binding = session.io_binding()
        place = self._memory.device, self._memory.device_id
        binding.bind_input("source_ids", *place, np.int32, shape, self._inputs.address)
        cross = self._cross
        names = [name for name, _ in cross.arrays()]
        if length == cross.length and slots == list(range(slots[0], slots[0] + count)):
            outputs = count, cross.heads, length, cross.width
            for name in names:
                address = cross.place(name, slots[0])
                binding.bind_output(name, *place, cross.element, outputs, address)
            run(session, binding)
            return
        for name in names:
            binding.bind_output(name, *place)
        run(session, binding)
        found = binding.get_outputs()
        cross.put([output.data_ptr() for output in found], slots, length)


class DeviceEncoder(SourceEncoder[Pool]):
    """Encodes one padded batch by the graph of ``models.export.admission``.

    The batch is padded to the length of the pool. If steps are captured, copies of the last
    sentence also pad it to one of a few batch sizes, so that the encode can be captured into a
    CUDA graph.
    """

    def __init__(
        self,
        sessions: GraphSessions,
        own: Pool,
        cross: Pool,
        memory: Memory,
        pad_id: int,
        limits: Limits,
    ) -> None:
        super().__init__(sessions, own, cross, memory, pad_id, limits)
        self._bindings: KeptBindings[tuple[int, ...], onnxruntime.IOBinding] = KeptBindings()

    def encode(self, slots: Sequence[int], sources: Sequence[Ids]) -> None:
        if not self._own.length:
            self._own.resize(1, 0)
        count = self._memory.batch_size(len(sources), self._slots)
        length = min(self._cross.length, self._source_length)
        inputs = Layout()
        inputs.add("source_ids", (count, length), np.int32)
        inputs.add("slots", (count, 1, 1), np.int64)
        self._inputs.reserve(inputs.end)
        missing = count - len(sources)
        self._write([*sources, *[sources[-1]] * missing], (count, length))
        self._inputs.view(*inputs.places["slots"])[:, 0, 0] = [*slots, *[slots[-1]] * missing]
        self._inputs.send(0, inputs.end)
        addresses = (a for pool in (self._own, self._cross) for _, a in pool.arrays())
        lengths = self._own.length, self._cross.length
        shape = count, *lengths, self._inputs.address, *addresses
        _, session = self._sessions.of(count * length)
        binding = self._bindings.get(shape, partial(self._bound, session, inputs))
        run(session, binding, self._memory.graph_options(shape))

    def close(self) -> None:
        self._bindings.clear()
        super().close()

    def _bound(
        self, session: onnxruntime.InferenceSession, inputs: Layout
    ) -> onnxruntime.IOBinding:
        binding = session.io_binding()
        place = self._memory.device, self._memory.device_id
        for name, (offset, shape, number) in inputs.places.items():
            binding.bind_input(name, *place, number, shape, self._inputs.address + offset)
        for pool in (self._own, self._cross):
            shape = self._slots, pool.heads * pool.length, pool.width
            for name, address in pool.arrays():
                binding.bind_input(f"pool_{name}", *place, pool.element, shape, address)
                binding.bind_output(f"written_{name}", *place, pool.element, shape, address)
        return binding


def source_encoder(
    sessions: GraphSessions,
    own: Pool,
    cross: Pool,
    memory: Memory,
    pad_id: int,
    limits: Limits,
) -> SourceEncoder[Any]:
    """The encoder for the pools of ``memory``."""
    if isinstance(own, HostPool) and isinstance(cross, HostPool):
        return HostEncoder(sessions, own, cross, memory, pad_id, limits)
    return DeviceEncoder(sessions, own, cross, memory, pad_id, limits)


def alike(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of the lengths, grouped by similar length to keep padding small."""
    groups: list[list[int]] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        small = groups and longest * len(groups[-1]) < _FEW_TOKENS
        if groups and (small or longest <= _PADDING * lengths[place]):
            groups[-1].append(place)
        else:
            groups.append([place])
            longest = lengths[place]
    return groups
