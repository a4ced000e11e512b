"""Assumed costs of a GPU, for planning without measurements.

The engine's costs are guesses for a data-centre GPU and a base-size network in fp16. A step
launches some 200 kernels at about 10 µs each. Search and scheduling take 1 to 2 ms of Python, as on
a CPU. A row's reads and writes take a few microseconds at 2 TB/s. An encode launches half as many
kernels. The event loop's costs are those measured on a CPU, since it is the same Python.
``benchmarks.gpu`` measures the steps of a real GPU.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.queueing.batch import Shape
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.fleet import Site
from benchmarks.workloads import newstest_lengths

ABOUT = "ASSUMED, not measured: base network in fp16 on a GPU, sentences of a news test's lengths"
_SENTENCES = 512


def assumed_gpu(measured: Costs) -> Site:
    """``measured`` supplies the costs of the event loop."""
    costs = replace(measured, step=4e-3, row=4e-6, encode=2e-3, source_token=2e-6)
    shape = Shape(slots=256, max_batch_tokens=1 << 16)
    lengths = tuple((length, length) for length in newstest_lengths(_SENTENCES))
    return Site(shape, costs, lengths, one_core=False)
