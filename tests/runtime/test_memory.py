from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from service.runtime.cuda import CudaError, CudaMemory
from service.runtime.memory import Captured, HostMemory, Memory, Stretches
from tests.runtime.simulated_gpu import NO_MEMORY, Runtime, SimulatedGpu


@pytest.fixture(params=["host", "gpu"])
def memory(request: pytest.FixtureRequest) -> Memory:
    return HostMemory() if request.param == "host" else SimulatedGpu()


def read(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(ctypes.string_at(address, size), np.uint8)


def write(address: int, values: NDArray[np.uint8]) -> None:
    ctypes.memmove(address, values.tobytes(), values.size)


def test_exchange_block_carries_bytes_both_ways(memory: Memory) -> None:
    exchange = memory.exchange()
    exchange.reserve(1000)
    exchange.view(256, (10,), np.uint8)[...] = np.arange(10)
    exchange.send(256, 266)
    memory.wait()
    assert read(exchange.address + 256, 10).tolist() == list(range(10))
    write(exchange.address, np.full(20, 7, np.uint8))
    exchange.receive(20)
    memory.wait()
    assert exchange.host[:20].tolist() == [7] * 20
    exchange.close()


def test_exchange_block_that_grows_has_no_holder_and_keeps_its_address_otherwise(
    memory: Memory,
) -> None:
    exchange = memory.exchange()
    exchange.reserve(100)
    exchange.holder = memory
    before = exchange.address
    exchange.reserve(100)
    assert (exchange.address, exchange.holder) == (before, memory)
    exchange.reserve(1 << 24)
    assert len(exchange.host) >= 1 << 24
    assert exchange.holder is None
    exchange.close()


def test_host_resize_keeps_the_bytes_that_fit_and_adds_zeros() -> None:
    memory = HostMemory()
    address = memory.allocate(6000)
    assert not read(address, 6000).any()
    write(address, np.full(6000, 7, np.uint8))
    address = memory.resize(address, 6000, 100_000)
    content = read(address, 100_000)
    assert (content[:6000] == 7).all()
    assert not content[6000:].any()
    address = memory.resize(address, 100_000, 10)
    assert read(address, 10).tolist() == [7] * 10
    memory.free(address)


def test_gpu_copy_and_clear_respect_pitches_and_touch_no_other_bytes() -> None:
    memory = SimulatedGpu()
    source, target = memory.allocate(24), memory.allocate(30)
    assert not read(source, 24).any()
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
    memory.close()


def test_cuda_out_of_memory_raises_memory_error_other_codes_cuda_error() -> None:
    runtime = Runtime()
    memory = CudaMemory(1, runtime)
    assert runtime.device == 1
    runtime.failing = NO_MEMORY
    with pytest.raises(MemoryError, match="GPU 1"):
        memory.allocate(10)
    runtime.failing = 700
    with pytest.raises(CudaError, match="cudaMalloc on GPU 1 failed with error 700"):
        memory.allocate(10)


def test_every_shape_is_captured_under_its_own_number() -> None:
    memory = CudaMemory(1, Runtime(), capture=True)

    def graph(*shape: int) -> str:
        options = memory.graph_options(shape)
        assert isinstance(options, Captured)
        return str(options.options.get_run_config_entry("gpu_graph_id"))

    assert graph(1, 8) == graph(1, 8)
    assert len({graph(1, 8), graph(2, 8), graph(8, 1), "-1"}) == 4
