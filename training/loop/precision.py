"""Precision of matrix products in training: fp32, or bf16 where a layer trains faster in it.

bf16 instructions alone say little: on one processor that has them, a step took half of the time of
fp32, on another three times as long (docs/log.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import torch
from torch.nn.attention import sdpa_kernel

from models.transformer.config import TransformerConfig
from models.transformer.layers import EncoderLayer
from training.device import attention_kernels
from training.recipe import Optimisation

Precision = Literal["fp32", "bf16"]

AUTOCAST: dict[Precision, torch.dtype | None] = {"fp32": None, "bf16": torch.bfloat16}
"""The data type of products under autocast; ``None`` is fp32 (TF32 on CUDA)."""

_LENGTH = 32
_FLOPS = 1e9
"""Floating-point operations of a timed pass: 10 ms of a core with 100 GFLOP/s."""
_SECONDS, _ROUNDS = 0.5, 5
"""Limits of the measurement: after two rounds, no round begins beyond ``_SECONDS``; at most
``_ROUNDS`` are run."""

Pass = Callable[[Precision], float]
"""Computes once in a precision; returns the processor seconds that it took."""


def precision_for(
    optimisation: Optimisation,
    config: TransformerConfig,
    device: torch.device,
    passes: Callable[[Optimisation, TransformerConfig], Pass] | None = None,
) -> Precision:
    """The recipe's precision; of ``auto``, the faster one on this device.

    On a CPU with bf16 instructions, ``passes`` are timed (default: an encoder layer, forward and
    backward; half a second). CUDA devices multiply faster in bf16 if they have it at all.
    """
    if optimisation.precision != "auto":
        return optimisation.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.get_device_capability(device) >= (8, 0) else "fp32"
    if not torch.cpu.get_capabilities().get("avx512_bf16", False):
        return "fp32"
    return _faster((passes or layer_pass)(optimisation, config))


def layer_pass(optimisation: Optimisation, config: TransformerConfig) -> Pass:
    """Times an encoder layer of the network on a CPU, on part of a batch.

    Processor time, because other processes lengthen the time by the clock of one pass only.
    """
    device = torch.device("cpu")
    flops_of_token = 6 * config.width * (4 * config.width + 2 * config.feed_forward)
    tokens = min(optimisation.tokens_per_batch, int(_FLOPS / flops_of_token))
    rows = max(1, tokens // _LENGTH)
    # The run's random numbers do not depend on whether a layer was timed.
    with torch.random.fork_rng(devices=[]):
        layer = EncoderLayer(config)
        x_BSW = torch.randn(rows, _LENGTH, config.width, requires_grad=True)
    visible_B11S = torch.ones(rows, 1, 1, _LENGTH, dtype=torch.bool)

    def seconds(precision: Precision) -> float:
        dtype = AUTOCAST[precision]
        started = time.process_time()
        with (
            torch.random.fork_rng(devices=[]),
            sdpa_kernel(attention_kernels(device, dtype)),
            torch.autocast("cpu", dtype, enabled=dtype is not None),
        ):
            total = layer(x_BSW, visible_B11S).float().sum()
        total.backward()
        layer.zero_grad()
        return time.process_time() - started

    return seconds


def _faster(seconds: Pass) -> Precision:
    """The precision with the shortest pass; fp32 if both are equal.

    The first pass of each allocates memory and is not counted. The shortest one is the least
    disturbed by other processes.
    """
    spent = sum(map(seconds, AUTOCAST))
    shortest = dict.fromkeys(AUTOCAST, float("inf"))
    for number in range(_ROUNDS):
        if number > 1 and spent > _SECONDS:
            break
        for precision in AUTOCAST:
            taken = seconds(precision)
            shortest[precision] = min(shortest[precision], taken)
            spent += taken
    return min(shortest, key=shortest.__getitem__)
