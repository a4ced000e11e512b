"""Encodes sources into the slots of a cross-attention pool. Shapes: backend.py, memory.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime

from service.runtime.memory import Memory, Pool

_FEW_TOKENS = 128
"""Below this batch size, encoding time hardly depends on the number of tokens."""
_PADDING = 1.2
"""Largest ratio of the longest to the shortest source in one encoder batch above that size."""

Ids = tuple[int, ...]


class SourceEncoder:
    """Owns the encoder's session and the exchange block of source ids."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        cross: Pool,
        memory: Memory,
        pad_id: int,
        source_length: int,
    ) -> None:
        self._session = session
        self._cross = cross
        self._memory = memory
        self._pad_id = pad_id
        self._source_length = source_length
        self._sources = memory.exchange()

    def encode(self, slots: Sequence[int], sources: Sequence[Ids]) -> None:
        """Write the keys and values of each source into its slot, which is long enough.

        The caller waits for the device's work up to here before the next call.
        """
        if self._memory.encodes_at_once:
            groups = [list(range(len(sources)))]
        else:
            groups = alike([len(source) for source in sources])
        for places in groups:
            self._encode([slots[place] for place in places], [sources[place] for place in places])

    def close(self) -> None:
        self._sources.close()

    def _encode(self, slots: list[int], sources: list[Ids]) -> None:
        """Encode some of the sentences as one padded batch."""
        count, bucket = len(sources), self._memory.cross_bucket
        # The network has no positions beyond the limit.
        padded = -(-max(map(len, sources)) // bucket) * bucket
        shape = count, min(padded, self._source_length)
        length = shape[1]
        self._sources.reserve(count * length * np.dtype(np.int32).itemsize)
        source_ids_BS = self._sources.view(0, shape, np.int32)
        source_ids_BS[...] = self._pad_id
        for row, source in zip(source_ids_BS, sources, strict=True):
            row[: len(source)] = source
        self._sources.send(0, source_ids_BS.nbytes)
        binding = self._session.io_binding()
        place = self._memory.device, self._memory.device_id
        binding.bind_input("source_ids", *place, np.int32, shape, self._sources.address)
        cross, options = self._cross, self._memory.run_options
        names = [name for name, _ in cross.arrays()]
        if length == cross.length and slots == list(range(slots[0], slots[0] + count)):
            outputs = count, cross.heads, length, cross.width
            for name in names:
                address = cross.place(name, slots[0])
                binding.bind_output(name, *place, cross.element, outputs, address)
            self._session.run_with_iobinding(binding, options)
            return
        for name in names:
            binding.bind_output(name, *place)
        self._session.run_with_iobinding(binding, options)
        found = binding.get_outputs()
        cross.put([output.data_ptr() for output in found], slots, length)


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
