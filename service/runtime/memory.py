"""Raw key/value memory: zeroed byte blocks that ONNX Runtime reads and writes in place.

Copies are two-dimensional (``height`` stretches of ``width`` bytes, ``pitch`` bytes apart), which
every device supports; see ``service.runtime.cuda``.
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
    """Byte stretches at ``address``, ``address + pitch``, ``address + 2 * pitch``, …"""

    address: int
    pitch: int


class Memory(Protocol):
    """Allocator of one device's memory."""

    device: str
    """ONNX Runtime's device name."""
    device_id: int

    def allocate(self, size: int) -> int:
        """The address of ``size`` zero bytes; raises ``MemoryError``."""

    def resize(self, address: int, old_size: int, size: int) -> int:
        """Resize a block; returns its address afterwards.

        Keeps the bytes that fit; added bytes are zero. Raises ``MemoryError`` and leaves the block
        unchanged if there is no room.
        """

    def free(self, address: int) -> None:
        """Free a block; ``address`` comes from ``allocate`` or ``resize``."""

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        """Copy stretches that do not overlap."""

    def clear(self, target: Stretches, width: int, height: int) -> None:
        """Fill stretches with zeros."""


class HostMemory:
    """Anonymous memory maps: aligned for SIMD, zero until written, returned to the system on free.

    Pages that were never written take no memory.
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

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        _view(target, width, height)[...] = _view(source, width, height)

    def clear(self, target: Stretches, width: int, height: int) -> None:
        _view(target, width, height)[...] = 0


def _view(stretches: Stretches, width: int, height: int) -> NDArray[np.uint8]:
    length = stretches.pitch * (height - 1) + width
    array = (ctypes.c_uint8 * length).from_address(stretches.address)
    memory = np.frombuffer(memoryview(array), np.uint8)
    return np.ndarray((height, width), np.uint8, memory, strides=(stretches.pitch, 1))
