"""Fake of NVML, the NVIDIA driver's library, for machines without a driver.

``pynvml`` calls it like the real library, by the C names and structures.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

BUS_ID = "00000000:65:00.0"
UUID = "GPU-5f2a7c1e-0000-4000-8000-000000000001"
GIB = 1 << 30
_SUCCESS, _NOT_FOUND, _GPU_IS_LOST, _NO_DRIVER = 0, 6, 15, 9


# ruff: noqa: N802
class FakeNvml:
    """One GPU of 80 GiB."""

    def __init__(self) -> None:
        self.used = 20 * GIB
        self.busy_percent = 75
        self.driver = True
        self.lost = False

    def nvmlInitWithFlags(self, flags: int) -> int:
        return _SUCCESS if self.driver else _NO_DRIVER

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, device: Any) -> int:
        return _SUCCESS if bus_id.value.decode() == BUS_ID else _NOT_FOUND

    def nvmlDeviceGetUUID(self, device: Any, text: Any, length: Any) -> int:
        text.value = UUID.encode()
        return _SUCCESS

    def nvmlDeviceGetMemoryInfo(self, device: Any, pointer: Any) -> int:
        memory = ctypes.cast(pointer, ctypes.POINTER(pynvml.c_nvmlMemory_t))[0]
        memory.total, memory.used = 80 * GIB, self.used
        return _GPU_IS_LOST if self.lost else _SUCCESS

    def nvmlDeviceGetUtilizationRates(self, device: Any, pointer: Any) -> int:
        rates = ctypes.cast(pointer, ctypes.POINTER(pynvml.c_nvmlUtilization_t))[0]
        rates.gpu, rates.memory = self.busy_percent, 1
        return _GPU_IS_LOST if self.lost else _SUCCESS


def install(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Replace ``libnvidia-ml.so.1`` by the fake."""
    fake = FakeNvml()
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return fake
