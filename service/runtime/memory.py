"""Memory for keys and values: blocks of bytes that ONNX Runtime reads and writes in place.

Blocks are addressed by bytes, and copied in two dimensions (``height`` stretches of ``width`` bytes
that lie ``pitch`` apart), which is what any device can do; see ``service.runtime.cuda``.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Stretches:
    """``height`` stretches of bytes, the first at ``address``, each ``pitch`` behind the last."""

    address: int
    pitch: int


class Memory(Protocol):
    """One device's memory."""

    device: str
    """As ONNX Runtime calls it."""
    device_id: int

    def allocate(self, size: int) -> int:
        """The address of so many bytes, all zero; raises ``MemoryError`` if there is no room."""

    def resize(self, address: int, old_size: int, size: int) -> int:
        """Make a block larger or smaller; returns where it is afterwards.

        What fits stays as it was, and what is added is zero. Raises ``MemoryError``, and leaves the
        block as it is, if there is no room.
        """

    def free(self, address: int) -> None:
        """Give a block back; ``address`` is as ``allocate`` or ``resize`` returned it."""

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        """Copy stretches that do not overlap."""

    def clear(self, target: Stretches, width: int, height: int) -> None:
        """Fill stretches with zeros."""


class HostMemory:
    """Anonymous pages: aligned for vector units, zero until written, the system's again when freed.

    What has never been written takes no memory.
    """

    device = "cpu"
    device_id = 0

    def __init__(self) -> None:
        self._blocks: dict[int, mmap.mmap] = {}

    def allocate(self, size: int) -> int:
        try:
            block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"no room for {size} bytes of keys and values") from error
        return self._keep(block)

    def resize(self, address: int, old_size: int, size: int) -> int:
        block = self._blocks[address]
        if sys.platform != "linux":
            # Only Linux moves pages.
            moved = self.allocate(size)
            ctypes.memmove(moved, address, min(old_size, size))
            self.free(address)
            return moved
        try:
            # Pages that have been written move without being copied.
            block.resize(max(size, 1))
        except OSError as error:
            raise MemoryError(f"no room for {size} bytes of keys and values") from error
        del self._blocks[address]
        return self._keep(block)

    def free(self, address: int) -> None:
        # The pages go when the last view of them does, which nobody keeps.
        del self._blocks[address]

    def _keep(self, block: mmap.mmap) -> int:
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self._blocks[address] = block
        return address

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        _view(target, width, height)[...] = _view(source, width, height)

    def clear(self, target: Stretches, width: int, height: int) -> None:
        _view(target, width, height)[...] = 0


def _view(stretches: Stretches, width: int, height: int) -> NDArray[np.uint8]:
    length = stretches.pitch * (height - 1) + width
    array = (ctypes.c_uint8 * length).from_address(stretches.address)
    memory = np.frombuffer(memoryview(array), np.uint8)
    return np.ndarray((height, width), np.uint8, memory, strides=(stretches.pitch, 1))
