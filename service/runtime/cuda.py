"""Device memory on an NVIDIA GPU, through the CUDA runtime library that ONNX Runtime uses.

Copies, clears and sessions of one backend use one stream, which orders them. Only ``wait`` waits.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

from models.bundle.manifest import Dimensions
from service.runtime.memory import Budget, Event, Exchange, Pool, Stretches

_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_OUT_OF_MEMORY = 2
_NON_BLOCKING = 1
_NO_TIMING = 2
"""Flag of events; waiting for them is cheaper then."""
_PCI_BUS_ID_SIZE = 32
_LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_LINKED = ("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcurand.so.10")
"""Further libraries that onnxruntime's CUDA provider is linked with or loads."""
_CUDA_VERSION = 13
_NO_DEVICE, _DRIVER_TOO_OLD = 100, 35
_CAPABILITY = 75, 76
"""Device attributes: major and minor compute capability."""
_PROPERTIES_SIZE = 1 << 13
"""More than ``cudaDeviceProp`` has in any version."""

ARCHITECTURES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0))
"""Compute capabilities that onnxruntime-gpu 1.31.1 has machine code for. It has no PTX, from which
a driver could compile code for other architectures."""

_EXCHANGE_BYTES = 1 << 20
"""First size of an exchange block: the inputs of 256 sentences of 4 rows."""
_RESERVED_ENTRIES = 256
"""Cache length that is reserved at first use, if the budget allows it."""
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256)
"""Numbers of sentences that have captured steps, and then multiples of the last."""
_RESERVED_SHARE = 4
"""A reservation takes at most one part in this many of the budget."""


class CudaError(Exception):
    """A call of the CUDA runtime failed."""


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
        self._graphs: dict[tuple[int, ...], onnxruntime.RunOptions] = {}
        self._runtime = runtime if runtime is not None else _load_runtime()
        self._thread = 0
        """The thread whose current device has been set."""
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
        if not self.captures:
            return sentences
        if sentences > _BATCHES[-1]:
            larger = -(-sentences // _BATCHES[-1]) * _BATCHES[-1]
        else:
            larger = _BATCHES[bisect_left(_BATCHES, sentences)]
        return min(larger, slots)

    def graph_options(self, shape: tuple[int, ...]) -> onnxruntime.RunOptions:
        if not self.captures:
            return self.run_options
        if shape not in self._graphs:
            self._graphs[shape] = _run_options(graph=len(self._graphs) + 1)
        return self._graphs[shape]

    def wait(self) -> None:
        self.call("cudaStreamSynchronize", ctypes.c_void_p(self.stream))

    def close(self) -> None:
        self.call("cudaStreamDestroy", ctypes.c_void_p(self.stream))

    def allocate(self, size: int) -> int:
        """The address of ``size`` zero bytes; raises ``MemoryError``."""
        address = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        assert address.value is not None
        self.clear(Stretches(address.value, size), size, 1)
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
        # The current device belongs to a thread, and loading uses another thread than decoding.
        if self._thread != threading.get_ident():
            self._thread = threading.get_ident()
            self._check("cudaSetDevice", self._runtime.cudaSetDevice(self.device_id))
        self._check(name, getattr(self._runtime, name)(*arguments))

    def _check(self, name: str, code: int) -> None:
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"GPU {self.device_id} has no room for these keys and values")
        if code:
            raise CudaError(f"{name} on GPU {self.device_id} failed with error {code}")


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
        memory.call("cudaEventCreateWithFlags", ctypes.byref(self._handle), _NO_TIMING)

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

    def _reserve(self, length: int) -> None:
        arrays = len(self._addresses)
        size = self._size(length)
        if not self._reserved and not self.states:
            wanted = self._size(max(length, _RESERVED_ENTRIES))
            size = max(size, min(wanted, self._budget.size // _RESERVED_SHARE // arrays))
            size -= size % (self.heads * self._entry)
        self._budget.take((size - self._reserved) * arrays)
        try:
            base, aside = self._blocks(size, arrays)
        except MemoryError:
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
        except MemoryError:
            self._memory.free(base)
            raise

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

    @property
    def device(self) -> str:
        """Its name in metrics and log lines."""
        return f"cuda:{self.number}"

    @property
    def supported(self) -> bool:
        """Whether onnxruntime has machine code for it. Code of a minor version runs on later ones
        of the same major version."""
        major, minor = self.capability
        return any(major == a and minor >= b for a, b in ARCHITECTURES)


def find_gpus() -> list[Gpu]:
    """The GPUs that this process may see; raises ``CudaError`` with the reason if there is none.

    The CUDA runtime counts them, because containers and WSL2 lack the driver's files in /proc.
    """
    runtime = _load_runtime()
    for library in _LINKED:
        try:
            ctypes.CDLL(library)
        except OSError as error:
            raise CudaError(f"{error}: install dragoman with its extra gpu") from error
    count, version = ctypes.c_int(), ctypes.c_int()
    code = runtime.cudaGetDeviceCount(ctypes.byref(count))
    if code == _DRIVER_TOO_OLD:
        runtime.cudaDriverGetVersion(ctypes.byref(version))
        if not version.value:
            raise CudaError("there is no NVIDIA driver")
        major, minor = version.value // 1000, version.value % 1000 // 10
        raise CudaError(
            f"the NVIDIA driver is too old: it runs CUDA {major}.{minor}; onnxruntime needs CUDA "
            f"{_CUDA_VERSION}"
        )
    if code == _NO_DEVICE or (not code and not count.value):
        raise CudaError("there is no NVIDIA GPU that this process may see")
    if code:
        raise CudaError(f"cudaGetDeviceCount failed with error {code}")
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
        raise CudaError(f"the properties of GPU {number} cannot be read: errors {codes}")
    # The first field of the properties is the name.
    name = ctypes.string_at(properties).decode(errors="replace")
    return Gpu(number, name, (capability[0].value, capability[1].value))


def pci_bus_id(device_id: int) -> str:
    """PCI bus id of a GPU, which identifies it to NVML; raises ``CudaError``."""
    name = ctypes.create_string_buffer(_PCI_BUS_ID_SIZE)
    code = _load_runtime().cudaDeviceGetPCIBusId(name, _PCI_BUS_ID_SIZE, device_id)
    if code:
        raise CudaError(f"cudaDeviceGetPCIBusId on GPU {device_id} failed with error {code}")
    return name.value.decode()


def _load_runtime() -> ctypes.CDLL:
    """The CUDA runtime that ``onnxruntime.preload_dlls`` has loaded into this process."""
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CudaError(f"none of {', '.join(_LIBRARIES)} is there: install dragoman with extra gpu")
