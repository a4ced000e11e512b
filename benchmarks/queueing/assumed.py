"""A GPU nobody has measured: assumptions to plan with until somebody has.

The engine's costs are guesses for a GPU of a data centre and a network of the base size in fp16. A
step launches some 200 kernels at about 10 µs each, and search and scheduling take 1 to 2 ms of
Python, as they do here; a row reads and writes what memory of 2 TB/s moves in a few microseconds;
an encode launches half as many kernels. The event loop's costs are those that were measured on a
CPU: it is the same Python. ``benchmarks.gpu`` measures the steps of a real one.
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
    """``measured`` is where the costs of the event loop come from."""
    costs = replace(measured, step=4e-3, row=4e-6, encode=2e-3, source_token=2e-6)
    shape = Shape(slots=256, max_batch_tokens=1 << 16)
    lengths = tuple((length, length) for length in newstest_lengths(_SENTENCES))
    return Site(shape, costs, lengths, one_core=False)
