"""Memory that ONNX Runtime reads and writes in place: exchange blocks, and pools of keys, values
and SSRU states.

This module keeps it in host memory; ``service.runtime.cuda`` keeps it on a GPU.

P  slots    C  entries of a cache    D  width of a head    H  heads    (other axes: backend.py)
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions
from service.runtime.backend import CacheUse

ALIGNMENT = 256
"""Alignment in bytes of the arrays in an exchange block. It suits SIMD and GPU copies."""

_SPARE = 4
"""Memory is released when it is this many times the needed size."""


class Exchange:
    """One block of bytes through which the host and a device exchange the arrays of a call.

    In host memory, the device's block is the host's block and nothing is copied.
    """

    def __init__(self) -> None:
        self.host: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.address = 0
        """The device's address of the block."""
        self.holder: object = None
        """Object whose arrays are in the block; ``None`` after an allocation."""

    def reserve(self, size: int) -> None:
        """Allocate a larger block if ``size`` bytes do not fit. Its content is lost."""
        if size > len(self.host):
            self.close()
            self._allocate(2 * size)

    def view(self, offset: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The array at an offset of the host's block."""
        return np.ndarray(shape, dtype, self.host, offset)

    def send(self, start: int, stop: int) -> None:
        """Copy bytes from the host to the device, in the order of the device's work."""

    def receive(self, size: int) -> None:
        """Copy the first bytes from the device to the host. ``Memory.wait`` completes the copy."""

    def close(self) -> None:
        """Free the block. Arrays in it may not be used afterwards."""
        # A holder refers to the block, and only the garbage collector would free both.
        self.holder = None

    def _allocate(self, size: int) -> None:
        block = np.zeros(size + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        self.host = block[start : start + size]
        self.address = self.host.ctypes.data


class Event:
    """A point in the order of a device's work. In host memory all work before it is done."""

    def record(self) -> None:
        """Set the point behind everything queued so far."""

    def wait(self) -> None:
        """Wait until the device has reached the point. Raises the errors of the device."""

    def close(self) -> None:
        """Free the event."""


@dataclass(slots=True)
class Captured:
    """Options of runs that are captured into a graph and replayed. ``plain`` captures nothing."""

    options: onnxruntime.RunOptions
    plain: onnxruntime.RunOptions
    settled: bool = False
    """Whether the graph is captured, or cannot be."""


RunOptions: TypeAlias = onnxruntime.RunOptions | Captured | None


class Memory(Protocol):
    """The memory of one device, for one backend."""

    device: str
    """ONNX Runtime's device name."""
    device_id: int
    stream: int
    """The CUDA stream of sessions that use the memory; 0 for none."""
    run_options: onnxruntime.RunOptions | None
    """Options of every run of a session that uses the memory."""
    captures: bool
    """Whether steps are captured into CUDA graphs and replayed."""
    self_bucket: int
    """Cache lengths are multiples of a bucket, so that shapes repeat. On a GPU, repeated shapes are
    faster; on a CPU, fewer entries to read."""
    cross_bucket: int
    encodes_into_slots: bool
    """Whether the encoder's graph is ``models.export.admission``: one padded batch, into any slots.
    Else batches of similar lengths are encoded, and copied where their slots are not consecutive.
    """

    def pool(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        budget: Budget,
        element: type[np.floating],
    ) -> Pool: ...

    def exchange(self) -> Exchange: ...

    def event(self) -> Event: ...

    def batch_size(self, sentences: int, slots: int) -> int:
        """The number of slots in the batch of a step, the used ones first."""

    def graph_options(self, shape: tuple[int, ...]) -> RunOptions:
        """Options of a run; ``shape`` tells its shapes and addresses from those of other runs."""

    def uncaptured(self) -> AbstractContextManager[None]:
        """``graph_options`` captures nothing inside this context.

        ONNX Runtime replays a graph only in the thread that has captured it.
        """

    def wait(self) -> None:
        """Wait for the end of all copies and runs. Raises the errors of the device."""

    def check(self) -> None:
        """Raise ``service.runtime.backend.DeviceLost`` if the device is lost to this process."""

    def close(self) -> None:
        """Free what the device keeps for this object, after pools and exchange blocks."""


class HostMemory:
    """Host implementation of ``Memory``: pools are anonymous memory maps.

    They are aligned for SIMD, zero until written, and returned to the system when they are freed.
    Pages that were never written take no memory.
    """

    device = "cpu"
    device_id = 0
    stream = 0
    run_options = None
    captures = False
    self_bucket = 16
    cross_bucket = 1
    encodes_into_slots = False

    def __init__(self) -> None:
        self._blocks: dict[int, mmap.mmap] = {}

    def pool(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        budget: Budget,
        element: type[np.floating],
    ) -> Pool:
        return HostPool(kind, dimensions, slots, self, budget, element)

    def exchange(self) -> Exchange:
        return Exchange()

    def event(self) -> Event:
        return Event()

    def batch_size(self, sentences: int, slots: int) -> int:
        return sentences

    def graph_options(self, shape: tuple[int, ...]) -> None:
        return None

    def uncaptured(self) -> AbstractContextManager[None]:
        return nullcontext()

    def wait(self) -> None:
        """Runs and copies on the host have ended when they return."""

    def check(self) -> None:
        """The host is never lost."""

    def close(self) -> None:
        """Pools have freed their memory themselves."""

    def allocate(self, size: int) -> int:
        """The address of ``size`` zero bytes; raises ``MemoryError``."""
        try:
            block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"no room for {size} bytes of keys and values") from error
        return self._keep(block)

    def resize(self, address: int, old_size: int, size: int) -> int:
        """Resize a block; returns its address afterwards.

        Keeps the bytes that fit; added bytes are zero. Raises ``MemoryError`` and leaves the block
        unchanged if there is no room.
        """
        block = self._blocks[address]
        if sys.platform != "linux":
            # Only Linux has mremap.
            moved = self.allocate(size)
            ctypes.memmove(moved, address, min(old_size, size))
            self.free(address)
            return moved
        try:
            # mremap moves written pages without copying.
            block.resize(max(size, 1))
        except OSError as error:
            raise MemoryError(f"no room for {size} bytes of keys and values") from error
        del self._blocks[address]
        return self._keep(block)

    def free(self, address: int) -> None:
        # Dropping the last reference unmaps the pages. No view of them is kept elsewhere.
        del self._blocks[address]

    def _keep(self, block: mmap.mmap) -> int:
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self._blocks[address] = block
        return address


@dataclass(frozen=True, slots=True)
class Stretches:
    """Byte stretches at ``address``, ``address + pitch``, ``address + 2 * pitch``, …"""

    address: int
    pitch: int


def _view(stretches: Stretches, width: int, height: int) -> NDArray[np.uint8]:
    # Not by ctypes, which makes a type for each length, and only the garbage collector frees types.
    interface = {
        "version": 3,
        "typestr": "|u1",
        "shape": (height, width),
        "strides": (stretches.pitch, 1),
        "data": (stretches.address, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


class CacheFull(MemoryError):
    """Keys and values need more memory than the budget allows."""

    def __init__(self, needed: int, budget: int) -> None:
        super().__init__(
            f"keys and values of this batch take {needed >> 20} MiB; {budget >> 20} MiB are allowed"
        )


class Budget:
    """Shared memory budget of all pools of a backend, in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken = 0

    def take(self, size: int) -> None:
        """Reserve ``size`` bytes, or release if negative; raises ``CacheFull`` over budget."""
        if size > 0 and self._taken + size > self.size:
            raise CacheFull(self._taken + size, self.size)
        self._taken += size

    @property
    def use(self) -> CacheUse:
        return CacheUse(self._taken, self.size)


class Pool(ABC):
    """A key and a value array ``[P, H, length, D]`` for every decoder layer.

    The decoder's own pool of a network with SSRU has an array of states instead, with one head as
    wide as the network; its length never changes.

    ``length`` is a multiple of the bucket that ``memory`` has for this kind. Unused entries must
    hold finite numbers: attention multiplies them by zero, and zero times NaN is NaN.
    """

    def __init__(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        memory: Memory,
        budget: Budget,
        element: type[np.floating],
    ) -> None:
        self.states = kind == "self" and dimensions.recurrent
        self.heads = 1 if self.states else dimensions.heads
        self.width = dimensions.width // self.heads
        self.element = element
        self._entry = self.width * np.dtype(element).itemsize
        self._slots = slots
        if self.states:
            self._bucket = 1
        else:
            self._bucket = memory.self_bucket if kind == "self" else memory.cross_bucket
        self._budget = budget
        self.length = 0
        self._reserved = 0
        """Allocated bytes of each array."""
        parts = ("state",) if self.states else (f"{kind}_keys", f"{kind}_values")
        self._addresses = {
            f"{part}.{layer}": 0 for layer in range(dimensions.decoder_layers) for part in parts
        }

    def resize(self, needed: int, used_slots: int, wanted_slots: int | None = None) -> bool:
        """Resize to about ``needed`` entries per slot; true if shapes or addresses have changed.

        The first ``used_slots`` slots keep the entries that fit. The first ``wanted_slots`` have
        room afterwards, by default all; the others have it too, but in host memory whose budget is
        short. Raises ``CacheFull`` and changes nothing if the budget is exceeded.
        """
        wanted = self._slots if wanted_slots is None else wanted_slots
        length = max(-(-needed // self._bucket), 1) * self._bucket
        # Shrinking copies all entries, so up to 40 % unused length is accepted.
        if 0.6 * self.length < length <= self.length:
            if self._size(self.length, wanted) <= self._reserved:
                return False
            length = self.length
        if self._size(length) > self._reserved:
            self._grow(length, wanted)
        self._spread(length, used_slots)
        if self._size(length) * _SPARE <= self._reserved:
            self._shrink(length)
        self.length = length
        return True

    @abstractmethod
    def trim(self, used_slots: int) -> None:
        """Release what no used slot needs, where another pool could use it."""

    def shape(self, slots: int) -> tuple[int, ...]:
        """Shape of the first slots of an array in the step's graph."""
        if self.states:
            return slots * self.length, self.width
        return slots, self.heads, self.length, self.width

    def place(self, name: str, slot: int) -> int:
        """Address of a slot in the array ``name``."""
        return self._addresses[name] + slot * self.heads * self.length * self._entry

    def arrays(self) -> Iterator[tuple[str, int]]:
        """Name and address of every array."""
        yield from self._addresses.items()

    @abstractmethod
    def move(self, origin: int, slot: int, length: int) -> None:
        """Copy at least the first ``length`` entries of slot ``origin`` to ``slot``."""

    @abstractmethod
    def clear(self, slots: Sequence[int]) -> None:
        """Fill slots with zeros."""

    @abstractmethod
    def release(self) -> None:
        """Free all memory. The pool cannot be used afterwards."""

    @abstractmethod
    def _grow(self, length: int, wanted_slots: int) -> None:
        """Reallocate all arrays for ``length`` entries, or change nothing and raise an error."""

    @abstractmethod
    def _shrink(self, length: int) -> None:
        """Release memory beyond ``length`` entries."""

    def _spread(self, length: int, used_slots: int) -> None:
        """Move the entries of the used slots to the layout of another length."""
        kept = min(length, self.length) * self._entry
        rows = used_slots * self.heads
        if not kept or not rows or length == self.length:
            return
        old_pitch, pitch = self.length * self._entry, length * self._entry
        # Old and new layout overlap, so each array is copied through a scratch buffer.
        scratch = Stretches(self._scratch(kept * rows), kept)
        for address in self._addresses.values():
            self._copy(scratch, Stretches(address, old_pitch), kept, rows)
            self._copy(Stretches(address, pitch), scratch, kept, rows)

    @abstractmethod
    def _scratch(self, size: int) -> int:
        """Address of at least ``size`` bytes."""

    @abstractmethod
    def _copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        """Copy stretches that do not overlap."""

    def _size(self, length: int, slots: int | None = None) -> int:
        """Bytes of some slots of an array, by default all."""
        return (self._slots if slots is None else slots) * self.heads * length * self._entry


class HostPool(Pool):
    """A pool in host memory. Touched memory is kept while it fits, because a new page costs more
    than a copied one."""

    def __init__(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        memory: HostMemory,
        budget: Budget,
        element: type[np.floating],
    ) -> None:
        super().__init__(kind, dimensions, slots, memory, budget, element)
        self._memory = memory
        self._aside, self._aside_size = memory.allocate(0), 0
        self._addresses = {name: memory.allocate(0) for name in self._addresses}

    def move(self, origin: int, slot: int, length: int) -> None:
        pitch = self.length * self._entry
        for name in self._addresses:
            target = Stretches(self.place(name, slot), pitch)
            source = Stretches(self.place(name, origin), pitch)
            self._copy(target, source, length * self._entry, self.heads)

    def put(self, sources: Sequence[int], slots: Sequence[int], length: int) -> None:
        """Copy ``[len(slots), H, length, D]`` into each array, in the order of ``arrays``.

        ``sources`` are addresses. Entries behind ``length`` are zero afterwards.
        """
        for name, source in zip(self._addresses, sources, strict=True):
            self._put(name, source, slots, length)

    def _put(self, name: str, source: int, slots: Sequence[int], length: int) -> None:
        pitch, filled = self.length * self._entry, length * self._entry
        for number, slot in enumerate(slots):
            target = self.place(name, slot)
            origin = Stretches(source + number * self.heads * filled, filled)
            self._copy(Stretches(target, pitch), origin, filled, self.heads)
            if filled < pitch:
                _view(Stretches(target + filled, pitch), pitch - filled, self.heads)[...] = 0

    def clear(self, slots: Sequence[int]) -> None:
        width = self._size(self.length, 1)
        if not slots or not width:
            return
        room = min(self._slots, self._reserved // width)
        inside = [slot for slot in slots if slot < room]
        rest = self._reserved - room * width if len(inside) < len(slots) else 0
        for name in self._addresses:
            _view(Stretches(self.place(name, 0), width), width, room)[inside] = 0
            # The beginning of a slot that lacks room.
            _view(Stretches(self.place(name, room), rest), rest, 1)[...] = 0

    def release(self) -> None:
        for address in (self._aside, *self._addresses.values()):
            self._memory.free(address)
        self._addresses = {}

    def trim(self, used_slots: int) -> None:
        self._reserve(min(self._reserved, self._size(self.length, used_slots)))

    def _grow(self, length: int, wanted_slots: int) -> None:
        try:
            self._reserve(self._size(length))
        except CacheFull:
            size = self._size(length, wanted_slots)
            if size > self._reserved:
                self._reserve(size)

    def _reserve(self, size: int) -> None:
        """Reallocate all arrays, or change nothing and raise an error."""
        difference = (size - self._reserved) * len(self._addresses)
        self._budget.take(difference)
        grown: list[str] = []
        try:
            for name, address in self._addresses.items():
                self._addresses[name] = self._memory.resize(address, self._reserved, size)
                grown.append(name)
        except MemoryError:
            for name in grown:
                address = self._addresses[name]
                self._addresses[name] = self._memory.resize(address, size, self._reserved)
            self._budget.take(-difference)
            raise
        self._reserved = size

    def _shrink(self, length: int) -> None:
        self._reserve(self._size(length))

    def _scratch(self, size: int) -> int:
        if size > self._aside_size:
            self._aside = self._memory.resize(self._aside, self._aside_size, size)
            self._aside_size = size
        return self._aside

    def _copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        _view(target, width, height)[...] = _view(source, width, height)
