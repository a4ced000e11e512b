"""Fake of NVML, the NVIDIA driver's library, for machines without a driver.

``pynvml`` calls it like the real library, by the C names and structures.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

UUID = "5f2a7c1e-0000-4000-8000-000000000001"
GIB = 1 << 30
_SUCCESS, _NOT_SUPPORTED, _NOT_FOUND, _GPU_IS_LOST, _NO_DRIVER = 0, 3, 6, 15, 9


# ruff: noqa: N802
class FakeNvml:
    """One GPU of 80 GiB."""

    def __init__(self) -> None:
        self.used = 20 * GIB
        self.busy_percent = 75
        self.driver = True
        self.lost = False
        self.mig = False
        """Whether it is an instance of MIG."""

    def nvmlInitWithFlags(self, flags: int) -> int:
        return _SUCCESS if self.driver else _NO_DRIVER

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, device: Any) -> int:
        known = f"{'MIG' if self.mig else 'GPU'}-{UUID}"
        return _SUCCESS if uuid.value.decode() == known else _NOT_FOUND

    def nvmlDeviceGetMemoryInfo(self, device: Any, pointer: Any) -> int:
        memory = ctypes.cast(pointer, ctypes.POINTER(pynvml.c_nvmlMemory_t))[0]
        memory.total, memory.used = 80 * GIB, self.used
        return _GPU_IS_LOST if self.lost else _SUCCESS

    def nvmlDeviceGetUtilizationRates(self, device: Any, pointer: Any) -> int:
        if self.mig:
            return _NOT_SUPPORTED
        rates = ctypes.cast(pointer, ctypes.POINTER(pynvml.c_nvmlUtilization_t))[0]
        rates.gpu, rates.memory = self.busy_percent, 1
        return _GPU_IS_LOST if self.lost else _SUCCESS


def install(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Replace ``libnvidia-ml.so.1`` by the fake."""
    fake = FakeNvml()
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return fake
