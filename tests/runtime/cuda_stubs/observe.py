"""What a backend on CUDA asks of the driver, as JSON: run with the stubs on LD_LIBRARY_PATH.

    python -m tests.runtime.cuda_stubs.observe BUNDLE

``stub_start`` and ``stub_stop`` of the stubs record launches, copies, waits and allocations.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.bundle.bundle import Bundle, graph_file
from models.bundle.manifest import GRAPHS
from service.runtime.backend import Admission, Beam, EncodeBatch, Launch, StepBatch
from service.runtime.cuda import CudaMemory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import usable_gpus

SENTENCES, ROWS, STEPS, LONG = 8, 4, 12, 1000
QUIET = re.compile(r"(\[capture\] )?CUDNN \w+Descriptor$")
"""Descriptors are made on the host."""

_OPEN = """
import sys, onnxruntime
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads, settings.log_severity_level, settings.log_verbosity_level = 1, 0, 1
providers = [("CUDAExecutionProvider", {}), "CPUExecutionProvider"]
onnxruntime.InferenceSession(sys.argv[1], settings, providers=providers)
"""


def record(work: Callable[[], object]) -> dict[str, int]:
    """The number of events of each kind while ``work`` runs."""
    stubs = ctypes.CDLL("libcudart.so.13")
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        stubs.stub_start()
        work()
        stubs.stub_stop(file.name.encode())
        events = Path(file.name).read_text(encoding="utf-8", errors="replace").splitlines()
    return Counter(map(kind, filter(lambda event: not QUIET.match(event), events)))


def kind(event: str) -> str:
    """Such as ``KERNEL``, ``COPY H2D``, ``SYNC stream`` or ``[capture] KERNEL``."""
    inside = "[capture] "
    if event.startswith(inside):
        return inside + kind(event.removeprefix(inside))
    first, *others = event.split()
    return f"{first} {others[0]}" if first in ("COPY", "SYNC", "GRAPH", "EVENT", "CUDNN") else first


def placement(model: Path) -> dict[str, list[str]]:
    """The operators of each provider, from ONNX Runtime's log while it opens a graph.

    If one provider has all nodes, their operators are empty.
    """
    opened = subprocess.run(
        [sys.executable, "-c", _OPEN, str(model)], capture_output=True, text=True, check=True
    )
    nodes: dict[str, list[str]] = {}
    for line in opened.stderr.splitlines():
        if match := re.search(
            r"All nodes placed on \[(\w+)Exec\w+\]\. Number of nodes: (\d+)", line
        ):
            # Their operators are not logged then.
            return {match[1]: [""] * int(match[2])}
        _, found, rest = line.partition("VerifyEachNodeIsAssignedToAnEp]")
        if found and (match := re.search(r"placed on \[(\w+)ExecutionProvider\]", rest)):
            provider = match[1]
        elif found and (match := re.match(r"\s+(\w+) \(", rest)):
            nodes.setdefault(provider, []).append(match[1])
    return nodes


def observe(bundle: Bundle, *, capture: bool) -> dict[str, object]:
    backend = OnnxBackend.load(
        bundle,
        "fp16",
        slots=4 * SENTENCES,
        rows_per_slot=ROWS,
        threads=1,
        cache_bytes=1 << 28,
        memory=CudaMemory(usable_gpus()[0].number, capture=capture),
    )
    sources = [tuple(range(5, 25))] * SENTENCES
    # Arenas grow in the first two runs of a shape.
    for slot in (0, SENTENCES):
        backend.encode(EncodeBatch(slot, sources))
    encode = record(lambda: backend.encode(EncodeBatch(2 * SENTENCES, sources)))

    def step(position: int, sentences: int = 3 * SENTENCES) -> dict[str, int]:
        batch = StepBatch(
            np.zeros((sentences, ROWS), np.int32),
            np.full((sentences, ROWS), 9, np.int32),
            np.full(sentences, position, np.int32),
            2 * ROWS,
        )
        return record(lambda: backend.step(batch))

    steps = [step(position) for position in range(STEPS)]
    last = 3 * SENTENCES - 1
    departure = record(lambda: backend.move(last, 0))
    after = step(STEPS, last)
    backend.close()
    return {
        "encode": encode,
        "capture": steps[0],
        "steps": steps[2:],
        "departure": departure,
        "after": after,
    }


def observe_resident(bundle: Bundle, *, capture: bool) -> dict[str, object]:
    """Launches of beam searches on the device, with sentences that arrive and leave."""
    backend = ResidentBackend.load(
        bundle,
        "fp16",
        slots=4 * SENTENCES,
        threads=1,
        cache_bytes=1 << 28,
        memory=CudaMemory(usable_gpus()[0].number, capture=capture),
    )

    def admit(slots: list[int]) -> dict[str, int]:
        source, beam = tuple(range(5, 25)), Beam(ROWS, 1, bar_unk=False)
        batch = Admission(slots, [source] * len(slots), [beam] * len(slots))
        return record(lambda: backend.encode(batch))

    def step(slots: list[int]) -> dict[str, int]:
        return record(lambda: backend.step(Launch(np.array(slots), ROWS * len(slots))))

    slots = list(range(3 * SENTENCES))
    first = admit(slots), step(slots)
    # A shape is captured in its second run.
    for count in (1, 2, 4, 8, 16) * 2:
        admit(slots[:count])
    # Both turns are captured, and both get a copy of the membership.
    for _ in range(4):
        step(slots)
    steps = [step(slots) for _ in range(STEPS)]
    again = admit(slots[3::4])
    joined = [step(slots) for _ in range(4)]
    # The stub computes nothing, so that records show no entry and the caches keep their length.
    many: Counter[str] = Counter()
    for number in range(LONG):
        if number % 100 == 50:
            many.update(admit(slots[3 : 5 + 2 * (number // 100) : 2]))
        many.update(step(slots[number % 3 :]))
    backend.close()
    return {
        "capture": first[1],
        "steps": steps,
        "admission": again,
        "joined": joined,
        "many": many,
    }


def main(bundle: Bundle) -> None:
    graphs = {
        graph: placement(bundle.path / graph_file(graph, "fp16")) for graph in (*GRAPHS, "resident")
    }
    plain, captured = (observe(bundle, capture=capture) for capture in (False, True))
    resident = [observe_resident(bundle, capture=capture) for capture in (False, True)]
    print(json.dumps({**plain, "placement": graphs, "captured": captured, "resident": resident}))


if __name__ == "__main__":
    main(Bundle.open(Path(sys.argv[1])))
