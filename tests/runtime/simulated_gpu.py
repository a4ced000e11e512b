"""A GPU simulated in host memory: its memory is apart from the host's and its stream is late.

Sessions run on the CPU provider and read and write the simulated device memory. So a test sees
whether inputs reach a device, whether results are awaited, and how many driver calls were made.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest

from service.runtime.cuda import CudaMemory

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
NO_MEMORY, INVALID = 2, 1
READ_ON_HOST = {
    "num_candidates",
    "scores_wanted",
    "edits_wanted",
    "attention_wanted",
    "shortlist_wanted",
    "shortlist_ids",
    "shortlist_bias",
}
"""Inputs of the step graph that stay in host memory on every device."""


@dataclass
class Pending:
    """A copy between host and device that ``cudaStreamSynchronize`` completes."""

    target: int
    source: int
    size: int
    content: bytes
    kind: int


# ruff: noqa: N802
class Runtime:
    """The functions of the CUDA runtime in use. New memory is not zero."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.device = -1
        self.failing = 0
        """The error of allocations, once ``succeeding`` more have succeeded."""
        self.succeeding = 0
        self.calls: Counter[str] = Counter()
        self._pending: list[Pending] = []
        self._events: dict[int, Pending | None] = {}
        """The last copy before each event."""

    def cudaSetDevice(self, device: int) -> int:
        self.device = device
        return 0

    def cudaThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        return 0

    def cudaGetLastError(self) -> int:
        self.calls["clear the error"] += 1
        return self.failing

    def cudaGetErrorName(self, code: int) -> bytes:
        return b"cudaErrorSimulated"

    def cudaGetErrorString(self, code: int) -> bytes:
        return b"a simulated error"

    def cudaStreamCreateWithFlags(self, stream: Any, flags: int) -> int:
        assert flags == 1, "a stream that does not wait for the default stream"
        return self._give(stream, 77)

    def cudaStreamDestroy(self, stream: Any) -> int:
        return 0 if stream.value == 77 else INVALID

    def cudaStreamSynchronize(self, stream: Any) -> int:
        self.calls["wait"] += 1
        assert stream.value == 77
        self._complete(len(self._pending))
        return 0

    def cudaEventCreateWithFlags(self, event: Any, flags: int) -> int:
        assert flags == 3, "an event without times, whose waits sleep"
        self._events[len(self._events) + 1] = None
        return self._give(event, len(self._events))

    def cudaEventDestroy(self, event: Any) -> int:
        return 0 if event.value in self._events else INVALID

    def cudaEventRecord(self, event: Any, stream: Any) -> int:
        self.calls["record"] += 1
        assert stream.value == 77
        self._events[event.value] = self._pending[-1] if self._pending else None
        return 0

    def cudaEventSynchronize(self, event: Any) -> int:
        self.calls["wait for an event"] += 1
        last = self._events[event.value]
        if any(copy is last for copy in self._pending):
            self._complete(1 + next(i for i, copy in enumerate(self._pending) if copy is last))
        return 0

    def _complete(self, count: int) -> None:
        """Let the first copies of the queue take place."""
        for copy in self._pending[:count]:
            if copy.kind == TO_HOST:
                ctypes.memmove(copy.target, copy.source, copy.size)
            else:
                sent = ctypes.string_at(copy.source, copy.size)
                assert sent == copy.content, "the host changed memory that was being copied"
        del self._pending[:count]

    def cudaMalloc(self, pointer: Any, size: Any) -> int:
        return self._allocate(self.blocks, pointer, size)

    def cudaHostAlloc(self, pointer: Any, size: Any, flags: int) -> int:
        return self._allocate(self.pinned, pointer, size)

    def cudaFree(self, pointer: Any) -> int:
        self.calls["free"] += 1
        assert not self._pending, "memory is freed while a copy is queued"
        del self.blocks[pointer.value]
        return 0

    def cudaFreeHost(self, pointer: Any) -> int:
        self.calls["free"] += 1
        del self.pinned[pointer.value]
        return 0

    def cudaMemcpyAsync(self, to: Any, of: Any, size: Any, kind: int, stream: Any) -> int:
        self.calls["to device" if kind == TO_DEVICE else "to host"] += 1
        device, host = (to, of) if kind == TO_DEVICE else (of, to)
        self._check(self.blocks, device.value, size.value)
        self._check(self.pinned, host.value, size.value)
        content = ctypes.string_at(of.value, size.value)
        if kind == TO_DEVICE:
            ctypes.memmove(to.value, of.value, size.value)
        self._pending.append(Pending(to.value, of.value, size.value, content, kind))
        return 0

    def cudaMemcpy2DAsync(self, to: Any, to_pitch: Any, of: Any, of_pitch: Any, *rest: Any) -> int:
        self.calls["copy"] += 1
        width, height, kind, stream = rest
        assert kind == ON_DEVICE and stream.value == 77
        self._check(self.blocks, to.value, to_pitch.value * (height.value - 1) + width.value)
        for row in range(height.value):
            source = of.value + row * of_pitch.value
            ctypes.memmove(to.value + row * to_pitch.value, source, width.value)
        return 0

    def cudaMemset2DAsync(self, to: Any, pitch: Any, value: int, *rest: Any) -> int:
        self.calls["clear"] += 1
        width, height, stream = rest
        assert stream.value == 77
        self._check(self.blocks, to.value, pitch.value * (height.value - 1) + width.value)
        for row in range(height.value):
            ctypes.memset(to.value + row * pitch.value, value, width.value)
        return 0

    def cudaMemsetAsync(self, to: Any, value: Any, size: Any, stream: Any) -> int:
        assert stream.value == 77
        self._check(self.blocks, to.value, size.value)
        ctypes.memset(to.value, value.value, size.value)
        return 0

    def _allocate(self, blocks: dict[int, Any], pointer: Any, size: Any) -> int:
        self.calls["allocate"] += 1
        if self.failing and not self.succeeding:
            return self.failing
        self.succeeding = max(0, self.succeeding - 1)
        block = np.full(size.value, 0xFF, np.uint8)
        blocks[block.ctypes.data] = block
        return self._give(pointer, block.ctypes.data)

    @staticmethod
    def _give(pointer: Any, value: int) -> int:
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[0] = value
        return 0

    @staticmethod
    def _check(blocks: dict[int, Any], address: int, size: int) -> None:
        starts = sorted(blocks)
        start = starts[bisect.bisect(starts, address) - 1]
        assert start <= address <= address + size <= start + len(blocks[start]), "out of bounds"

    def holds(self, address: int) -> bool:
        """Whether an address is in device memory."""
        return any(start <= address <= start + len(b) for start, b in self.blocks.items())


class SimulatedGpu(CudaMemory):
    """``CudaMemory`` for sessions on the CPU."""

    device = "cpu"

    def __init__(self, runtime: Runtime | None = None, *, capture: bool = False) -> None:
        super().__init__(0, runtime or Runtime(), capture=capture)


def bind_by_value(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> None:
    """Copy host inputs when they are bound, as a session on CUDA does with all but READ_ON_HOST."""
    bind_value = onnxruntime.IOBinding.bind_ortvalue_input
    bind_input = onnxruntime.IOBinding.bind_input
    kept: list[Any] = []

    def by_value(self: onnxruntime.IOBinding, name: str, value: onnxruntime.OrtValue) -> None:
        if name not in READ_ON_HOST:
            value = onnxruntime.OrtValue.ortvalue_from_numpy(np.array(value.numpy(), copy=True))
            kept.append(value)
        bind_value(self, name, value)

    def at_address(
        self: onnxruntime.IOBinding,
        name: str,
        device: str,
        number: int,
        element: Any,
        shape: Any,
        address: int,
    ) -> None:
        if name not in READ_ON_HOST and not runtime.holds(address):
            size = int(np.prod(shape)) * np.dtype(element).itemsize
            array = np.frombuffer(ctypes.string_at(address, size), np.uint8)
            kept.append(array)
            address = array.ctypes.data
        bind_input(self, name, device, number, element, shape, address)

    monkeypatch.setattr(onnxruntime.IOBinding, "bind_ortvalue_input", by_value)
    monkeypatch.setattr(onnxruntime.IOBinding, "bind_input", at_address)
