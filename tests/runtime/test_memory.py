from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.runtime.cuda import CudaError, CudaMemory
from service.runtime.memory import HostMemory, Memory, Stretches


# ruff: noqa: N802
class FakeRuntime:
    """Fake of the CUDA runtime functions in use, on host memory."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.device = -1
        self.failing = 0

    def cudaSetDevice(self, device: int) -> int:
        self.device = device
        return 0

    def cudaMalloc(self, pointer: Any, size: ctypes.c_size_t) -> int:
        if self.failing:
            return self.failing
        block = (ctypes.c_uint8 * size.value)(*b"\xff" * size.value)
        address = ctypes.addressof(block)
        self.blocks[address] = block
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[0] = address
        return 0

    def cudaMemset(self, pointer: Any, value: int, size: ctypes.c_size_t) -> int:
        ctypes.memset(pointer, value, size.value)
        return 0

    def cudaFree(self, pointer: Any) -> int:
        del self.blocks[pointer.value]
        return 0

    def cudaMemcpy2D(self, to: Any, to_pitch: Any, of: Any, of_pitch: Any, *rest: Any) -> int:
        width, height, kind = rest
        assert kind == 3
        for row in range(height.value):
            ctypes.memmove(
                to.value + row * to_pitch.value, of.value + row * of_pitch.value, width.value
            )
        return 0

    def cudaMemset2D(self, to: Any, pitch: Any, value: int, width: Any, height: Any) -> int:
        for row in range(height.value):
            ctypes.memset(to.value + row * pitch.value, value, width.value)
        return 0

    def cudaDeviceSynchronize(self) -> int:
        return 0


@pytest.fixture(params=["host", "cuda"])
def memory(request: pytest.FixtureRequest) -> Memory:
    return HostMemory() if request.param == "host" else CudaMemory(0, FakeRuntime())


def read(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(ctypes.string_at(address, size), np.uint8)


def write(address: int, values: NDArray[np.uint8]) -> None:
    ctypes.memmove(address, values.tobytes(), values.size)


def test_a_new_block_is_zero(memory: Memory) -> None:
    address = memory.allocate(1000)
    assert not read(address, 1000).any()
    memory.free(address)


def test_resize_keeps_the_bytes_that_fit_and_adds_zeros(memory: Memory) -> None:
    address = memory.allocate(6000)
    write(address, np.full(6000, 7, np.uint8))
    address = memory.resize(address, 6000, 100_000)
    content = read(address, 100_000)
    assert (content[:6000] == 7).all()
    assert not content[6000:].any()
    address = memory.resize(address, 100_000, 10)
    assert read(address, 10).tolist() == [7] * 10
    memory.free(address)


def test_copy_and_clear_respect_pitches_and_touch_no_other_bytes(
    memory: Memory,
) -> None:
    source, target = memory.allocate(24), memory.allocate(30)
    write(source, np.arange(24, dtype=np.uint8))
    write(target, np.full(30, 99, np.uint8))
    memory.copy(Stretches(target + 1, 10), Stretches(source + 2, 8), 3, 3)
    rows = read(target, 30).reshape(3, 10)
    assert rows[:, 1:4].tolist() == [[2, 3, 4], [10, 11, 12], [18, 19, 20]]
    rows = np.delete(rows, [1, 2, 3], axis=1)
    assert (rows == 99).all()
    memory.clear(Stretches(target, 10), 2, 2)
    assert read(target, 30).reshape(3, 10)[:, 0].tolist() == [0, 0, 99]
    memory.free(source)
    memory.free(target)


def test_cuda_out_of_memory_raises_memory_error_other_codes_cuda_error() -> None:
    runtime = FakeRuntime()
    memory = CudaMemory(1, runtime)
    assert runtime.device == 1
    runtime.failing = 2
    with pytest.raises(MemoryError, match="GPU 1 has no room"):
        memory.allocate(10)
    runtime.failing = 700
    with pytest.raises(CudaError, match="cudaMalloc on GPU 1 failed with error 700"):
        memory.allocate(10)
