"""Scenarios of a service on GPUs, on the stubs: one each run, whose result is JSON.

    python -m tests.runtime.cuda_stubs.scenarios SCENARIO BUNDLE

The stubs compute nothing, so no example is reproduced; ``proved`` takes each for reproduced.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import service.loading.loader as loader
from models.bundle.bundle import Bundle
from service.catalogue.loaded_model import LoadedModel
from service.engine.group import EngineGroup
from service.engine.types import DecodingOptions
from service.observability.metrics import Metrics
from service.runtime import sessions
from service.runtime.attention import AttentionGraph
from service.runtime.backend import EMPTY_ROW, Admission, Beam, EncodeBatch, Launch, StepBatch
from service.runtime.cuda import CudaMemory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import usable_gpus
from service.settings import Settings

SOURCE = (*range(5, 8), 2)
PLAIN = DecodingOptions(beam_size=4, max_decoding_length=4)
CONSTRAINED = DecodingOptions(beam_size=4, max_decoding_length=4, repetition_penalty=1.2)
SLOTS, ROWS = 256, 4


def stubs() -> ctypes.CDLL:
    library = ctypes.CDLL("libcudart.so.13")
    library.stub_bytes.restype = ctypes.c_size_t
    library.stub_mallocs.restype = ctypes.c_long
    return library


def set_variable(name: str, value: str) -> None:
    """Change what the stubs read with ``getenv``."""
    ctypes.CDLL(None).setenv(name.encode(), value.encode(), 1)


def proved() -> None:
    """Take every example for reproduced."""

    async def reproduces(*_: object) -> bool:
        return True

    loader._reproduces = reproduces  # type: ignore[assignment]


async def load(bundle: Path, **settings: Any) -> LoadedModel:
    chosen = Settings.from_environment(**{"device": "cuda", **settings})
    return await loader.load_model(bundle, chosen, Metrics().observer)


async def outcome(decoding: Awaitable[object]) -> str:
    try:
        await asyncio.wait_for(decoding, 120)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


async def decode_many(group: EngineGroup, count: int) -> Counter[str]:
    """Outcomes of sentences, every other one constrained."""
    options = itertools.cycle((PLAIN, CONSTRAINED))
    found = await asyncio.gather(
        *(outcome(group.decode(SOURCE, next(options))) for _ in range(count))
    )
    return Counter(found)


def ramp(bundle: Path) -> dict[str, object]:
    """Megabytes and allocations while the number of sentences grows from 1 to 256."""
    library, opened = stubs(), Bundle.open(bundle)
    usable_gpus()
    found: dict[str, object] = {}
    for kind, capture, growing in itertools.product(
        ("resident", "general"), (False, True), (True, False)
    ):
        memory = CudaMemory(0, capture=capture)
        common = {"slots": SLOTS, "threads": 1, "cache_bytes": 8 << 30, "memory": memory}
        backend: Any = (
            ResidentBackend.load(opened, "fp16", **common)  # type: ignore[arg-type]
            if kind == "resident"
            else OnnxBackend.load(opened, "fp16", rows_per_slot=8, **common)  # type: ignore[arg-type]
        )
        before = library.stub_bytes(0), library.stub_mallocs(0)
        if growing:
            backend.reserve()
        last = 0
        for sentences in range(1, SLOTS + 1) if growing else (SLOTS,):
            _admit(backend, last, sentences - last)
            last = sentences
            for _ in range(2):
                _step(backend, sentences)
        after = library.stub_bytes(0), library.stub_mallocs(0)
        name = f"{kind}, {'captured' if capture else 'plain'}, {'ramp' if growing else 'largest'}"
        found[name] = (after[0] - before[0]) >> 20, after[1] - before[1]
        backend.close()
    return found


def _admit(backend: Any, first: int, count: int) -> None:
    source = tuple(range(5, 30))
    for start in range(first, first + count, 64):
        sources = [source] * min(64, first + count - start)
        if isinstance(backend, ResidentBackend):
            beams = [Beam(ROWS, 1, bar_unk=False)] * len(sources)
            backend.encode(Admission(range(start, start + len(sources)), sources, beams))
        else:
            backend.encode(EncodeBatch(start, sources))


def _step(backend: Any, sentences: int) -> None:
    if isinstance(backend, ResidentBackend):
        backend.step(Launch(np.arange(sentences), ROWS * sentences))
        return
    # Rows without a prefix: the cache does not grow with the steps.
    parents_BK = np.full((sentences, ROWS), EMPTY_ROW, np.int32)
    positions_B = np.zeros(sentences, np.int32)
    backend.step(StepBatch(parents_BK, np.full_like(parents_BK, 9), positions_B, 2 * ROWS))


async def devices(bundle: Path) -> dict[str, object]:
    """Bytes on each of two GPUs while a model is used on those of ``DRAGOMAN_GPUS``, four times."""
    library = stubs()
    most = [0, 0]
    outcomes: Counter[str] = Counter()
    for _ in range(4):
        model = await load(bundle)
        outcomes += await decode_many(model.engine, 16)
        most = [max(seen, library.stub_bytes(i)) for i, seen in enumerate(most)]
        await model.close()
    return {"bytes": most, "outcomes": outcomes}


async def lost(bundle: Path) -> dict[str, object]:
    """GPU 0 is lost while sentences are decoded, and then while none is."""
    library = stubs()
    model = await load(bundle)
    group, found = model.engine, {}
    found["before"] = await decode_many(group, 16)
    started = time.monotonic()
    if idle := bool(os.environ.get("STUB_IDLE")):
        library.stub_break(0, 700)
    else:
        library.stub_break(0, 700)
        found["after"] = await decode_many(group, 32)
    while group.complete and time.monotonic() - started < 5:
        await asyncio.sleep(0.05)
    seconds, noticed = time.monotonic() - started, not group.complete
    later = await decode_many(group, 16)
    reload = await outcome(load(bundle)) if not idle else ""
    return {
        **found,
        "seconds": seconds,
        "noticed": noticed,
        "later": later,
        "alive": group.alive,
        "complete": group.complete,
        "lost": group.lost,
        "devices": group.devices,
        "reload": reload,
    }


async def short(bundle: Path) -> dict[str, object]:
    """The memory of the GPU is full: arenas cannot grow beyond what a small batch needs.

    Nothing is reserved at load, as for batches of unusual lengths.
    """
    for backend in (OnnxBackend, ResidentBackend):
        backend.reserve = lambda _: None  # type: ignore[method-assign]
    model = await load(bundle, warm_up_seconds=0, slots=64)
    found = {"alone": await decode_many(model.engine, 2)}
    set_variable("STUB_BLOCK", os.environ.get("STUB_LATER_BLOCK", "400000"))
    found["together"] = await decode_many(model.engine, 128)
    set_variable("STUB_BLOCK", str(1 << 40))
    found["again"] = await decode_many(model.engine, 2)
    await model.close()
    return {**found}


def allocations(bundle: Path) -> dict[str, object]:
    """Bytes on each of two GPUs after allocations on GPU 1 by threads one after the other.

    The system gives each the id of the one before. Then one thread allocates on both in turns.
    """
    usable_gpus()
    memories = [CudaMemory(number) for number in (1, 0)]
    for _ in range(4):
        thread = threading.Thread(target=memories[0].allocate, args=[1 << 20])
        thread.start()
        thread.join()
    after = [stubs().stub_bytes(number) for number in range(2)]
    for memory in memories * 2:
        memory.allocate(1 << 20)
    return {"threads": after, "turns": [stubs().stub_bytes(number) for number in range(2)]}


def large(bundle: Path) -> dict[str, object]:
    """A block beyond the 2 GiB that a pitch may have."""
    usable_gpus()
    memory = CudaMemory(0)
    memory.free(memory.allocate(3 << 30))
    return {"bytes": stubs().stub_bytes(0)}


def isolation(bundle: Path) -> dict[str, object]:
    """Allocations and closing sessions in one thread, while another one captures steps."""
    opened = Bundle.open(bundle)
    usable_gpus()

    def load_backend() -> ResidentBackend:
        memory = CudaMemory(0, capture=True)
        return ResidentBackend.load(opened, "fp16", slots=64, threads=1, memory=memory)

    capturing, others = load_backend(), load_backend()
    memory = CudaMemory(0)
    others.warm_up(4096, 600)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(capturing.warm_up(4096, 600)))
    thread.start()
    allocated = 0
    while thread.is_alive():
        memory.free(memory.allocate(1 << 16))
        allocated += 1
        if allocated == 10:
            others.close()
    thread.join()
    conflicts = ctypes.c_long.in_dll(stubs(), "stub_conflicts").value
    return {"conflicts": conflicts, "warmed": len(results)}


async def beside_capture(bundle: Path) -> dict[str, object]:
    """Captures that other threads invalidate, each of which does what one of a service does."""
    library, opened = stubs(), Bundle.open(bundle)
    model = await load(bundle, warm_up_seconds=0)
    graphs = [AttentionGraph.load(opened, "fp16", device="cuda")]

    def read_attention() -> None:
        graphs[0].run(SOURCE, (5, 6))

    def close_attention() -> None:
        graphs.pop().close()

    def open_attention() -> None:
        graphs.append(AttentionGraph.load(opened, "fp16", device="cuda"))

    def free_on_event_loop() -> None:
        address = ctypes.c_void_p()
        library.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20))
        library.cudaFree(address)

    found = {}
    for work in (read_attention, close_attention, open_attention, free_on_event_loop):
        capturing = _Capturing(work is open_attention)
        if work is free_on_event_loop:
            work()
        else:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        found[work.__name__] = capturing.conflicts()
    await model.close()
    return {**found, "opened": len(graphs)}


class _Capturing:
    """A thread that captures in ONNX Runtime's mode, which other threads can invalidate."""

    def __init__(self, briefly: bool) -> None:
        """A capture ends with ``conflicts``, or ``briefly`` after it has begun."""
        self._begun, self._over = threading.Event(), threading.Event()
        self._before = self._conflicts
        self._thread = threading.Thread(target=self._capture, args=[0.5 if briefly else None])
        self._thread.start()
        self._begun.wait()

    @property
    def _conflicts(self) -> int:
        return ctypes.c_long.in_dll(stubs(), "stub_conflicts").value

    def conflicts(self) -> int:
        """End the capture; returns how often it has been invalidated."""
        self._over.set()
        self._thread.join()
        return self._conflicts - self._before

    def _capture(self, seconds: float | None) -> None:
        library, stream, graph = stubs(), ctypes.c_void_p(), ctypes.c_void_p()
        library.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
        with sessions._gate.capture() as allowed:
            assert allowed
            library.cudaStreamBeginCapture(stream, 0)
            self._begun.set()
            self._over.wait(seconds)
            library.cudaStreamEndCapture(stream, ctypes.byref(graph))


async def capture(bundle: Path) -> dict[str, object]:
    """Sentences, reloads and attention requests, while steps of other shapes are captured."""
    library, wanted = stubs(), int(os.environ.get("STUB_SENTENCES", "2000"))
    outcomes: Counter[str] = Counter()
    model = await load(bundle, warm_up_seconds=0)
    reloads, attention = 0, Counter[str]()

    async def reloading() -> None:
        nonlocal model, reloads
        while outcomes.total() < wanted:
            before, model = model, await load(bundle, warm_up_seconds=reloads % 2)
            await asyncio.sleep(0.2)
            await before.close()
            reloads += 1

    async def attending() -> None:
        while outcomes.total() < wanted:
            attention[await outcome(model.attention.read(SOURCE, (5, 6)))] += 1

    async def decoding() -> None:
        for size in itertools.cycle((1, 2, 3, 5, 9, 17, 33, 65, 97, 129, 200, 256)):
            if outcomes.total() >= wanted:
                return
            outcomes.update(await decode_many(model.engine, 2 * size))

    await asyncio.gather(reloading(), attending(), decoding())
    await model.close()
    outcomes.pop("EngineStopped: the engine has stopped", None)
    return {
        "outcomes": outcomes,
        "attention": attention,
        "reloads": reloads,
        "conflicts": ctypes.c_long.in_dll(library, "stub_conflicts").value,
    }


async def started(bundle: Path) -> dict[str, object]:
    """Threads, seconds and graphs of a model that is ready on its GPUs."""
    library, threads = stubs(), len(os.listdir("/proc/self/task"))
    before = time.monotonic()
    library.stub_start()
    model = await load(bundle, threads=96)
    for engine in model.engine._engines:
        await engine.decode(SOURCE, PLAIN)
    seconds = time.monotonic() - before
    niceness = {
        os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) - os.nice(0)
        for thread in threading.enumerate()
        if thread.name == "engine"
    }
    with suppress(FileNotFoundError):
        os.remove(log := "build/started.log")
    library.stub_stop(log.encode())
    events = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    os.remove(log)
    found = {
        "threads": len(os.listdir("/proc/self/task")) - threads,
        "seconds": seconds,
        "captures": sum(event.startswith("GRAPH instantiate") for event in events),
        "events": sorted({e.split()[-1] for e in events if e.startswith("EVENT create flags")}),
        "niceness": sorted(niceness),
        "slots": [engine._scheduler.limits.slots for engine in model.engine._engines],
        "mebibytes": library.stub_bytes(0) >> 20,
    }
    await model.close()
    return found


SCENARIOS: dict[str, Callable[[Path], Any]] = {
    each.__name__: each
    for each in (
        ramp,
        devices,
        allocations,
        lost,
        short,
        large,
        isolation,
        beside_capture,
        capture,
        started,
    )
}


def main(name: str, bundle: Path) -> None:
    proved()
    found = SCENARIOS[name](bundle)
    print(json.dumps(asyncio.run(found) if asyncio.iscoroutine(found) else found), flush=True)
    # Freeing the sessions of a lost device would abort the process.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
