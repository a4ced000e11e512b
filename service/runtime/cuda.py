"""Key/value memory on an NVIDIA GPU, through the CUDA runtime library that ONNX Runtime uses."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

from service.runtime.memory import Stretches

_DEVICE_TO_DEVICE = 3
_OUT_OF_MEMORY = 2
_PCI_BUS_ID_SIZE = 32
_LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")


class CudaError(Exception):
    """A call of the CUDA runtime failed."""


class CudaMemory:
    """GPU implementation of ``service.runtime.memory.Memory``. Every call is synchronous.

    ONNX Runtime uses its own stream and synchronises it at the end of a run. Copies here use the
    default stream and synchronise too, so neither reads data of an unfinished operation.
    """

    device = "cuda"

    def __init__(self, device_id: int, runtime: Any = None) -> None:
        self.device_id = device_id
        self._runtime = runtime if runtime is not None else _load_runtime()
        self._call("cudaSetDevice", device_id)

    def allocate(self, size: int) -> int:
        address = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        assert address.value is not None
        self._call("cudaMemset", address, 0, ctypes.c_size_t(max(size, 1)))
        return address.value

    def resize(self, address: int, old_size: int, size: int) -> int:
        moved = self.allocate(size)
        kept = min(old_size, size)
        self.copy(Stretches(moved, kept), Stretches(address, kept), kept, 1)
        self.free(address)
        return moved

    def free(self, address: int) -> None:
        self._call("cudaFree", ctypes.c_void_p(address))

    def copy(self, target: Stretches, source: Stretches, width: int, height: int) -> None:
        self._call(
            "cudaMemcpy2D",
            ctypes.c_void_p(target.address),
            ctypes.c_size_t(target.pitch),
            ctypes.c_void_p(source.address),
            ctypes.c_size_t(source.pitch),
            ctypes.c_size_t(width),
            ctypes.c_size_t(height),
            _DEVICE_TO_DEVICE,
        )
        self._call("cudaDeviceSynchronize")

    def clear(self, target: Stretches, width: int, height: int) -> None:
        self._call(
            "cudaMemset2D",
            ctypes.c_void_p(target.address),
            ctypes.c_size_t(target.pitch),
            0,
            ctypes.c_size_t(width),
            ctypes.c_size_t(height),
        )
        self._call("cudaDeviceSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        """Raises ``MemoryError`` if the device is out of memory, else ``CudaError``."""
        code = getattr(self._runtime, name)(*arguments)
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"GPU {self.device_id} has no room for these keys and values")
        if code:
            raise CudaError(f"{name} on GPU {self.device_id} failed with error {code}")


def pci_bus_id(device_id: int, runtime: Any = None) -> str:
    """PCI bus id of a GPU, which identifies it to NVML; raises ``CudaError``."""
    runtime = runtime if runtime is not None else _load_runtime()
    name = ctypes.create_string_buffer(_PCI_BUS_ID_SIZE)
    code = runtime.cudaDeviceGetPCIBusId(name, _PCI_BUS_ID_SIZE, device_id)
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
