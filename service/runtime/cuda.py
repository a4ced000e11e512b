"""Device memory on an NVIDIA GPU, through the CUDA runtime library that ONNX Runtime uses.

Copies, clears and sessions of one backend use one stream, which orders them. Only ``wait`` waits.

The current device and the capture mode belong to a thread. ONNX Runtime changes the current device
of threads that open or run sessions, so ``CudaMemory.call`` sets it before each call. The capture
mode is set once in each thread that uses CUDA (``ignore_other_captures``).
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

from models.bundle.manifest import Dimensions
from service.runtime.backend import DeviceLost
from service.runtime.memory import Budget, Captured, Event, Exchange, Pool, Stretches

logger = logging.getLogger(__name__)

_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_OUT_OF_MEMORY = 2
_NON_BLOCKING = 1
_SLEEPING_WAIT, _NO_TIMING = 1, 2
"""Flags of events: a thread that waits leaves its core to others; waiting is cheaper."""
_THREAD_LOCAL = 1
"""``cudaStreamCaptureModeThreadLocal``."""
_LIBRARIES = ("libcudart.so.13",)
_LINKED = ("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcurand.so.10")
"""Further libraries that onnxruntime's CUDA provider is linked with or loads."""
_CUDA_VERSION = 13
_DRIVER_VERSION = 580
"""The first series of drivers that run CUDA 13."""
_NO_DEVICE, _DRIVER_TOO_OLD = 100, 35
_NOT_YET = (802, 999)
"""Errors that pass: the fabric manager of a machine with NVSwitch has not started, or the driver's
module for memory has not come back after a suspension."""
_NOT_YET_SECONDS, _RETRY_SECONDS = 60.0, 2.0
_CAPABILITY = 75, 76
"""Device attributes: major and minor compute capability."""
_PROPERTIES_SIZE = 1 << 13
"""More than ``cudaDeviceProp`` has in any version."""
_NAME_SIZE, _UUID_SIZE = 256, 16
"""Its first two fields."""

ARCHITECTURES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0))
"""Compute capabilities that onnxruntime-gpu 1.31.1 has machine code for. It has no PTX, from which
a driver could compile code for other architectures."""
_EXACT = {(12, 0)}
"""Capabilities whose code runs on no other one: it was compiled for ``sm_120a``."""

_EXCHANGE_BYTES = 1 << 20
"""First size of an exchange block: the inputs of 256 sentences of 4 rows."""
_RESERVED_ENTRIES = 256
"""Cache length that is reserved at first use, if the budget allows it."""
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256)
"""Numbers of sentences in a batch, and then multiples of the last. Few sizes bound the memory of
ONNX Runtime's arenas, whose blocks never merge, and the number of captured graphs."""
_MOST_GRAPHS = 1024
"""Captured graphs of a backend. ONNX Runtime never frees one; further shapes run without."""
_RESERVED_SHARE = 4
"""A reservation takes at most one part in this many of the budget."""


class CudaError(Exception):
    """A call of the CUDA runtime failed."""


class DriverUnusable(CudaError):
    """There is a driver, and no GPU can be used with it."""


class DriverNotReady(DriverUnusable):
    """The driver has failed for a minute with an error that may pass later."""


_thread = threading.local()
"""Attributes of the calling thread. Unlike thread ids, they are never inherited from a thread that
has ended."""


def ignore_other_captures(runtime: Any = None) -> None:
    """Keep the calling thread's CUDA calls legal while other threads capture graphs.

    By default an allocation of any thread would fail and invalidate the capture, and freeing a
    session would end the process (``cudaThreadExchangeStreamCaptureMode``). Cheap after the first
    call of a thread.
    """
    if not getattr(_thread, "ignores_other_captures", False):
        runtime = runtime if runtime is not None else _load_runtime()
        runtime.cudaThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_THREAD_LOCAL)))
        _thread.ignores_other_captures = True


class CudaMemory:
    """GPU implementation of ``service.runtime.memory.Memory``."""

    device = "cuda"
    self_bucket = 64
    cross_bucket = 32
    encodes_into_slots = True

    def __init__(self, device_id: int, runtime: Any = None, *, capture: bool = False) -> None:
        """Load the CUDA runtime. If ``capture``, a step in fp16 is one launch of a CUDA graph once
        its shape has run."""
        self.device_id = device_id
        self.captures = capture
        self._capturing = True
        self._graphs: dict[tuple[int, ...], Captured] = {}
        self._runtime = runtime if runtime is not None else _load_runtime()
        stream = ctypes.c_void_p()
        # The stream must not wait for work of other threads on the default stream.
        self.call("cudaStreamCreateWithFlags", ctypes.byref(stream), _NON_BLOCKING)
        self.stream = stream.value or 0
        # No capture. Without an id, onnxruntime raises and catches an exception in each run.
        self.run_options = _run_options(graph=-1)

    def pool(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        budget: Budget,
        element: type[np.floating],
    ) -> Pool:
        return CudaPool(kind, dimensions, slots, self, budget, element)

    def exchange(self) -> Exchange:
        return CudaExchange(self)

    def event(self) -> Event:
        return CudaEvent(self)

    def batch_size(self, sentences: int, slots: int) -> int:
        if sentences > _BATCHES[-1]:
            larger = -(-sentences // _BATCHES[-1]) * _BATCHES[-1]
        else:
            larger = _BATCHES[bisect_left(_BATCHES, sentences)]
        return min(larger, slots)

    def graph_options(self, shape: tuple[int, ...]) -> Captured | onnxruntime.RunOptions:
        if not (self.captures and self._capturing):
            return self.run_options
        if shape not in self._graphs:
            if len(self._graphs) == _MOST_GRAPHS:
                return self.run_options
            options = _run_options(graph=len(self._graphs) + 1)
            self._graphs[shape] = Captured(options, self.run_options)
        return self._graphs[shape]

    @contextmanager
    def uncaptured(self) -> Iterator[None]:
        self._capturing = False
        try:
            yield
        finally:
            self._capturing = True

    def wait(self) -> None:
        self.call("cudaStreamSynchronize", ctypes.c_void_p(self.stream))

    def check(self) -> None:
        try:
            self.wait()
        except CudaError as error:
            raise DeviceLost(f"GPU {self.device_id} is lost to this process: {error}") from error

    def close(self) -> None:
        self.call("cudaStreamDestroy", ctypes.c_void_p(self.stream))

    def allocate(self, size: int) -> int:
        """The address of ``size`` zero bytes; raises ``MemoryError``."""
        address = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        assert address.value is not None
        # Not as one line of a 2-D block: a pitch is limited to 2 GiB.
        zero, stream = ctypes.c_int(0), ctypes.c_void_p(self.stream)
        self.call("cudaMemsetAsync", address, zero, ctypes.c_size_t(size), stream)
        return address.value

    def free(self, address: int) -> None:
        self.call("cudaFree", ctypes.c_void_p(address))

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        """Queue a copy of stretches that do not overlap."""
        self.call(
            "cudaMemcpy2DAsync",
            ctypes.c_void_p(target.address),
            ctypes.c_size_t(target.pitch),
            ctypes.c_void_p(source.address),
            ctypes.c_size_t(source.pitch),
            ctypes.c_size_t(width),
            ctypes.c_size_t(height),
            _ON_DEVICE,
            ctypes.c_void_p(self.stream),
        )

    def clear(self, target: Stretches, width: int, height: int) -> None:
        """Queue filling stretches with zeros."""
        self.call(
            "cudaMemset2DAsync",
            ctypes.c_void_p(target.address),
            ctypes.c_size_t(target.pitch),
            0,
            ctypes.c_size_t(width),
            ctypes.c_size_t(height),
            ctypes.c_void_p(self.stream),
        )

    def call(self, name: str, *arguments: object) -> None:
        """Raises ``MemoryError`` if the device is out of memory, else ``CudaError``."""
        ignore_other_captures(self._runtime)
        self._check("cudaSetDevice", self._runtime.cudaSetDevice(self.device_id))
        self._check(name, getattr(self._runtime, name)(*arguments))

    def _check(self, name: str, code: int) -> None:
        if code:
            # Otherwise ONNX Runtime would find the error after the next kernel that it launches.
            self._runtime.cudaGetLastError()
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"GPU {self.device_id} has no room for these keys and values")
        if code:
            raise CudaError(
                f"{name} on GPU {self.device_id} failed with {_words(self._runtime, code)}"
            )


def _run_options(graph: int) -> onnxruntime.RunOptions:
    """A run ends when its kernels are queued; ``CudaMemory.wait`` waits for them."""
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    options.add_run_config_entry("gpu_graph_id", str(graph))
    return options


class CudaEvent(Event):
    """An event on the stream of a memory."""

    def __init__(self, memory: CudaMemory) -> None:
        self._memory = memory
        self._handle = ctypes.c_void_p()
        # The wait is for the step before the last one, so a late wake-up costs nothing.
        flags = _SLEEPING_WAIT | _NO_TIMING
        memory.call("cudaEventCreateWithFlags", ctypes.byref(self._handle), flags)

    def record(self) -> None:
        stream = ctypes.c_void_p(self._memory.stream)
        self._memory.call("cudaEventRecord", self._handle, stream)

    def wait(self) -> None:
        self._memory.call("cudaEventSynchronize", self._handle)

    def close(self) -> None:
        self._memory.call("cudaEventDestroy", self._handle)


class CudaExchange(Exchange):
    """A page-locked block of the host and a block of the GPU."""

    def __init__(self, memory: CudaMemory) -> None:
        super().__init__()
        self._memory = memory
        self._pinned = 0
        self.reserve(_EXCHANGE_BYTES // 2)

    def send(self, start: int, stop: int) -> None:
        self._copy(self.address + start, self._pinned + start, stop - start, _TO_DEVICE)

    def receive(self, size: int) -> None:
        self._copy(self._pinned, self.address, size, _TO_HOST)

    def close(self) -> None:
        super().close()
        if self._pinned:
            self._memory.wait()
            self._memory.free(self.address)
            self._memory.call("cudaFreeHost", ctypes.c_void_p(self._pinned))
        self._pinned = self.address = 0

    def _allocate(self, size: int) -> None:
        pinned = ctypes.c_void_p()
        self._memory.call("cudaHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(size), 0)
        assert pinned.value is not None
        self._pinned = pinned.value
        self.host = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pinned.value))
        self.host[...] = 0
        self.address = self._memory.allocate(size)

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        memory = self._memory
        memory.call(
            "cudaMemcpyAsync",
            ctypes.c_void_p(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
            kind,
            ctypes.c_void_p(memory.stream),
        )


class CudaPool(Pool):
    """A pool on a GPU. All arrays are in one block, so that one call moves or clears a slot in
    every array, and the block is reserved once."""

    def __init__(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        memory: CudaMemory,
        budget: Budget,
        element: type[np.floating],
    ) -> None:
        super().__init__(kind, dimensions, slots, memory, budget, element)
        self._memory = memory
        self._base = 0
        self._aside = 0

    def move(self, origin: int, slot: int, length: int) -> None:
        # The whole slot, because its entries are contiguous in each array.
        width, arrays = self._slot_bytes, len(self._addresses)
        target = Stretches(self._base + slot * width, self._reserved)
        source = Stretches(self._base + origin * width, self._reserved)
        self._memory.copy(target, source, width, arrays)

    def clear(self, slots: Sequence[int]) -> None:
        if not slots or not self.length:
            return
        # Other slots are cleared by the graph of an admission.
        assert slots[-1] - slots[0] == len(slots) - 1
        target = Stretches(self._base + slots[0] * self._slot_bytes, self._reserved)
        self._memory.clear(target, len(slots) * self._slot_bytes, len(self._addresses))

    def release(self) -> None:
        self._free()
        self._addresses = {}

    def _free(self) -> None:
        self._memory.wait()
        for address in (self._aside, self._base):
            if address:
                self._memory.free(address)

    @property
    def _slot_bytes(self) -> int:
        return self.heads * self.length * self._entry

    def _grow(self, length: int, wanted_slots: int) -> None:
        arrays = len(self._addresses)
        size = self._size(length)
        if not self._reserved and not self.states:
            wanted = self._size(max(length, _RESERVED_ENTRIES))
            size = max(size, min(wanted, self._budget.size // _RESERVED_SHARE // arrays))
            size -= size % (self.heads * self._entry)
        self._budget.take((size - self._reserved) * arrays)
        try:
            base, aside = self._blocks(size, arrays)
        except (CudaError, MemoryError):
            self._budget.take((self._reserved - size) * arrays)
            raise
        if self._base:
            kept = min(size, self._reserved)
            target, source = Stretches(base, size), Stretches(self._base, self._reserved)
            self._memory.copy(target, source, kept, arrays)
            self._free()
        self._base, self._aside, self._reserved = base, aside, size
        self._addresses = {name: base + i * size for i, name in enumerate(self._addresses)}

    def _blocks(self, size: int, arrays: int) -> tuple[int, int]:
        base = self._memory.allocate(size * arrays)
        try:
            return base, self._memory.allocate(size)
        except (CudaError, MemoryError):
            self._memory.free(base)
            raise

    def trim(self, used_slots: int) -> None:
        """The reservation stays, as when it shrinks."""

    def _shrink(self, length: int) -> None:
        """The reservation stays: allocating it again would wait for the GPU."""

    def _scratch(self, size: int) -> int:
        return self._aside

    def _copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        self._memory.copy(target, source, width, height)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that this process may see."""

    number: int
    name: str
    capability: tuple[int, int]
    """Compute capability, which names the architecture."""
    uuid: str = ""
    """32 hexadecimal digits; under MIG, of the instance."""

    @property
    def device(self) -> str:
        """Its name in metrics and log lines."""
        return f"cuda:{self.number}"

    @property
    def supported(self) -> bool:
        """Whether onnxruntime has machine code for it. Code of a minor version runs on later ones
        of the same major version."""
        major, minor = self.capability
        return self.capability in ARCHITECTURES or any(
            major == a and minor > b for a, b in set(ARCHITECTURES) - _EXACT
        )


def find_gpus() -> list[Gpu]:
    """The GPUs that this process may see; raises ``CudaError`` with the reason if there is none.

    The CUDA runtime counts them, because containers and WSL2 lack the driver's files in /proc.
    Waits for at most a minute for a driver that is not ready, and then raises ``DriverNotReady``.
    """
    runtime = _load_runtime()
    for library in _LINKED:
        try:
            ctypes.CDLL(library)
        except OSError as error:
            raise CudaError(f"{error}: install dragoman with its extra gpu") from error
    count, version = ctypes.c_int(), ctypes.c_int()
    deadline = time.monotonic() + _NOT_YET_SECONDS
    waiting = False
    while (code := runtime.cudaGetDeviceCount(ctypes.byref(count))) in _NOT_YET:
        reason = f"the NVIDIA driver is not ready: {_words(runtime, code)}"
        if time.monotonic() + _RETRY_SECONDS > deadline:
            raise DriverNotReady(reason)
        if not waiting:
            logger.warning("%s; waiting for at most %.0f s", reason, _NOT_YET_SECONDS)
        waiting = True
        time.sleep(_RETRY_SECONDS)
    if code == _DRIVER_TOO_OLD:
        runtime.cudaDriverGetVersion(ctypes.byref(version))
        if not version.value:
            raise CudaError("there is no NVIDIA driver")
        major, minor = version.value // 1000, version.value % 1000 // 10
        raise DriverUnusable(
            f"the NVIDIA driver is too old: it runs CUDA {major}.{minor}; onnxruntime needs CUDA "
            f"{_CUDA_VERSION}, driver {_DRIVER_VERSION} or later"
        )
    if code == _NO_DEVICE or (not code and not count.value):
        raise CudaError("there is no NVIDIA GPU that this process may see")
    if code:
        raise DriverUnusable(f"cudaGetDeviceCount failed with {_words(runtime, code)}")
    return [_describe(runtime, number) for number in range(count.value)]


def _describe(runtime: Any, number: int) -> Gpu:
    properties = ctypes.create_string_buffer(_PROPERTIES_SIZE)
    capability = ctypes.c_int(), ctypes.c_int()
    codes = [
        runtime.cudaGetDeviceProperties(properties, number),
        *(
            runtime.cudaDeviceGetAttribute(ctypes.byref(value), attribute, number)
            for value, attribute in zip(capability, _CAPABILITY, strict=True)
        ),
    ]
    if any(codes):
        raise DriverUnusable(f"the properties of GPU {number} cannot be read: errors {codes}")
    name = ctypes.string_at(properties).decode(errors="replace")
    uuid = properties.raw[_NAME_SIZE : _NAME_SIZE + _UUID_SIZE].hex()
    return Gpu(number, name, (capability[0].value, capability[1].value), uuid)


def free_memory(device_id: int) -> int:
    """Bytes of a GPU that no process uses. Changes the thread's current device."""
    runtime = _load_runtime()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = runtime.cudaSetDevice(device_id) or runtime.cudaMemGetInfo(
        ctypes.byref(free), ctypes.byref(total)
    )
    if code:
        raise CudaError(f"the memory of GPU {device_id} cannot be read: {_words(runtime, code)}")
    return free.value


def _words(runtime: Any, code: int) -> str:
    """Number, name and description of an error of the CUDA runtime."""
    name, text = (
        bytes(of(code)).decode() for of in (runtime.cudaGetErrorName, runtime.cudaGetErrorString)
    )
    return f"error {code}, {name}: {text}"


def _load_runtime() -> ctypes.CDLL:
    """The CUDA runtime that ``onnxruntime.preload_dlls`` has loaded into this process."""
    for library in _LIBRARIES:
        try:
            runtime = ctypes.CDLL(library)
        except OSError:
            continue
        for name in ("cudaGetErrorName", "cudaGetErrorString"):
            getattr(runtime, name).restype = ctypes.c_char_p
        return runtime
    raise CudaError(f"none of {', '.join(_LIBRARIES)} is there: install dragoman with extra gpu")
