"""Writes entries of any slots into every array of a pool on a GPU, by one run of a small graph.

The number of driver calls does not depend on the number of slots: one copy of indices, and one
kernel for each array. Shapes: backend.py, memory.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnxruntime

from service.runtime.memory import Memory

_INDEX = np.int64


class Scatter:
    """The session of ``models.export.scatter`` for one pool, and the indices of its next runs."""

    def __init__(
        self, memory: Memory, arrays: int, heads: int, width: int, element: type[np.floating]
    ) -> None:
        # Only processes that use a GPU pay for importing the writer of graphs.
        from models.export.scatter import scatter_graph

        name = "float16" if element is np.float16 else "float"
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.log_severity_level = 3
        on_device = (
            "CUDAExecutionProvider",
            {"device_id": memory.device_id, "user_compute_stream": memory.stream},
        )
        self._session = onnxruntime.InferenceSession(
            scatter_graph(arrays, heads, width, name),
            settings,
            providers=[*([on_device] if memory.device == "cuda" else []), "CPUExecutionProvider"],
        )
        self._memory, self._element = memory, element
        self._heads, self._width = heads, width
        self._indices = memory.exchange()
        self._places: dict[int, int] = {}
        """By number of entries, where their indices begin in the exchange block."""
        self._slots = self._lines = 0

    def aim(
        self, slots: Sequence[int], entries: Iterable[int], length: int, all_slots: int
    ) -> None:
        """Send the indices of the first ``entries`` of some slots, for ``write`` with any of them.

        The pool has ``all_slots`` slots of ``length`` entries. The caller waits for the device's
        work up to here before the next call.
        """
        self._slots, self._lines = len(slots), all_slots * self._heads * length
        self._places.clear()
        end = 0
        for count in entries:
            self._places[count] = end
            end += len(slots) * self._heads * count * np.dtype(_INDEX).itemsize
        self._indices.reserve(end)
        heads_BH1 = np.asarray(slots)[:, None, None] * self._heads + np.arange(self._heads)[:, None]
        for count, place in self._places.items():
            lines_BHS = self._indices.view(place, (len(slots), self._heads, count), _INDEX)
            np.add(heads_BH1 * length, np.arange(count), out=lines_BHS)
        self._indices.send(0, end)

    def write(self, arrays: Iterable[int], updates: Sequence[int], entries: int) -> None:
        """Write ``[slots, H, entries, D]`` at each address of ``updates`` into an array.

        The entries are the first ones of each slot. ``arrays`` are addresses, too.
        """
        binding = self._session.io_binding()
        place = self._memory.device, self._memory.device_id
        shape = self._slots, self._heads, entries
        address = self._indices.address + self._places[entries]
        binding.bind_input("lines", *place, _INDEX, (*shape, 1), address)
        pool = self._lines, self._width
        for i, (array, update) in enumerate(zip(arrays, updates, strict=True)):
            binding.bind_input(f"pool.{i}", *place, self._element, pool, array)
            new = *shape, self._width
            binding.bind_input(f"updates.{i}", *place, self._element, new, update)
            binding.bind_output(f"written.{i}", *place, self._element, pool, array)
        self._session.run_with_iobinding(binding, self._memory.run_options)

    def close(self) -> None:
        """Free the indices and the session."""
        self._indices.close()
        del self._session
