"""Device capabilities: attention kernels, peak FLOP/s, peak memory.

Attention masks are tensors only where necessary, because a tensor mask excludes flash kernels.
Decoder self-attention uses ``CAUSAL`` without a tensor, which suffices because padding stands at
the end. Where source padding is masked, a boolean mask ``[B, 1, 1, S]`` remains, which the
memory-efficient kernel supports. cuDNN's kernel supports it as well, but makes a plan for every
shape that it has not met, and the batches of sentences have many shapes: on an H200 a step took 3.6
times as long.
"""

from __future__ import annotations

import ctypes
import platform
import resource
import sys

import torch
from torch.nn.attention import SDPBackend

ALL_KERNELS = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]

_PEAKS = {
    "B200": 2250e12,
    "GH200": 989.4e12,
    "H200 NVL": 835.5e12,
    "H200": 989.4e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835.5e12,
    "H100": 989.4e12,
    "A100": 312e12,
    "L40S": 362.05e12,
    "L4": 121e12,
    "A10G": 70e12,
    "A10": 125e12,
    "RTX 4090": 165.2e12,
    "RTX 3090": 71e12,
}
"""FLOP/s of dense bf16 products, by the vendor's data sheets. A name that contains another name
comes before it."""


# Parameters of glibc's mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_NEVER = 2**31 - 1


def peak_flops(name: str) -> float | None:
    """Peak FLOP/s of dense bf16 products of the device with this name, or ``None``."""
    # With a final blank, "NVIDIA L4" is not found in "NVIDIA L40S".
    words = f"{name.replace('-', ' ')} "
    return next((peak for known, peak in _PEAKS.items() if f" {known} " in words), None)


def peak_of(device: torch.device) -> float | None:
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def attention_kernels(device: torch.device, dtype: torch.dtype | None) -> list[SDPBackend]:
    # In bf16 on a CPU, the fused kernel's backward pass takes six times as long for short
    # sentences as unfused products.
    plain = device.type == "cpu" and dtype is not None
    return [SDPBackend.MATH] if plain else ALL_KERNELS


def prepare(device: torch.device) -> None:
    """Configure this process for the device.

    On CUDA, fp32 products may round their factors to TF32. On a CPU under glibc, memory of freed
    tensors stays with the process. By default each large tensor is mapped anew, and page faults
    take a tenth of a step.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    elif sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def peak_memory(device: torch.device) -> int:
    """Peak bytes allocated on a CUDA device, or the peak resident size of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # ru_maxrss is in kilobytes, on macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
