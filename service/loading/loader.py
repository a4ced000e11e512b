"""Loads a bundle into engines and verifies it on the examples of its manifest.

File access and computation run in a thread, so that the event loop stays responsive. On each GPU in
use, or on the CPU, a model has an engine of its own. An engine is used only after it has decoded
every example to the same token ids, on a GPU within a tolerance. This also warms it up. A model is
returned if it has an engine at least. If loading fails, its threads are stopped and its memory is
freed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from models.bundle.bundle import Bundle
from models.bundle.manifest import Example, InvalidBundle, Manifest, Precision
from models.bundle.shortlist import Shortlist
from service.catalogue.attention_reader import AttentionReader
from service.catalogue.loaded_model import DirectedModel, LoadedModel, Tokenizers
from service.catalogue.repository import FoundBundle
from service.catalogue.result_cache import Lookup, ResultCache
from service.engine.beam_scheduler import BeamScheduler
from service.engine.engine import Engine
from service.engine.errors import EngineError
from service.engine.group import EngineGroup
from service.engine.iteration import Iteration
from service.engine.scheduler import BatchScheduler, Scheduler
from service.engine.types import MOST_ALTERNATIVES, DecodingOptions
from service.loading.choices import Chooser
from service.loading.on_gpu import BEAM_SHARE, GENERAL_SHARE, open_with_room, warm_up
from service.runtime.attention import AttentionGraph
from service.runtime.backend import Backend, BeamBackend, TeacherForced
from service.runtime.cuda import CudaError, CudaMemory, ignore_other_captures
from service.runtime.memory import HostMemory, Memory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import Device, DeviceUnavailable, available_device, chosen_gpus
from service.settings import Settings
from service.threads.thread_priority import lower_thread_priority
from service.translation.decoding import NO_OVERRIDES

logger = logging.getLogger(__name__)

_PREFERENCE: dict[Device, tuple[Precision, ...]] = {
    "cpu": ("int8", "fp32", "fp16"),
    "cuda": ("fp16", "fp32", "int8"),
}
"""Precisions that ``auto`` chooses from on each device, best first."""


_SLOTS: dict[Precision, int] = {"int8": 64, "fp32": 32, "fp16": 256}
"""Default slot counts. More are hardly faster and take memory; see docs/performance.md."""


_CPU_CACHE_MEGABYTES = 2048

_BATCH_TOKENS: dict[Device, int] = {"cpu": 1664, "cuda": 1 << 16}
"""Source tokens per step up to which memory access takes little longer than computation."""


EXAMPLE_TOLERANCE = 0.05
"""Nats per token by which an example may be less likely than the translation that a GPU found.

GPUs round differently. Export chooses examples that lead the next translation by this much.
"""


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A bundle's tokenizers and graphs in memory, without a running engine."""

    manifest: Manifest
    precision: Precision
    tokenizers: Tokenizers
    backends: Mapping[str, Backend]
    """Backends by device, as metrics name it."""
    attention: TeacherForced
    device: Device = "cpu"
    resident: Mapping[str, BeamBackend] = field(default_factory=dict)
    """Backends whose beam searches run on the device, by device."""
    shortlist: Shortlist | None = None
    """Restricts ``backends``, if it is used."""

    def close(self) -> None:
        for backend in self.backends.values():
            backend.close()
        for resident in self.resident.values():
            resident.close()
        self.attention.close()


class ModelObserver(Protocol):
    """Receives the iterations of an engine, and the lookups of its model's result cache."""

    def iterated(self, iteration: Iteration) -> None: ...

    def looked_up(self, result: Lookup) -> None: ...


class ObserverFor(Protocol):
    """Returns the observer of a model on one device, such as ``Metrics.observer``."""

    def __call__(self, model: str, device: str = "cpu") -> ModelObserver: ...


Announce = Callable[[Mapping[str, str], float], None]
"""Called with the facts of a loaded model and the seconds it took: ``Metrics.model_loaded``."""


def open_bundle(path: Path, settings: Settings) -> OpenedBundle:
    """Verify a bundle and load it. Blocks; raises ``InvalidBundle``."""
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    device, precision = placed(path, manifest, settings)
    try:
        gpus = chosen_gpus(settings.gpus) if device == "cuda" else []
    except DeviceUnavailable as error:
        raise InvalidBundle(f"{path} cannot be loaded: {error}") from error
    bundle = bundle.in_memory(precision)
    tokenizers = bundle.tokenizers()
    shortlist = _shortlist(bundle, precision) if settings.shortlist else None
    numbers = {gpu.device: gpu.number for gpu in gpus} or {"cpu": 0}
    logger.info("loading %s in %s on %s", manifest.name, precision, ", ".join(numbers))

    def open_on(number: int) -> Backend:
        def open_in(slots: int, cache_bytes: int) -> Backend:
            return OnnxBackend.load(
                bundle,
                precision,
                slots=slots,
                rows_per_slot=max(settings.max_beam_size, MOST_ALTERNATIVES),
                threads=settings.threads,
                cache_bytes=cache_bytes,
                memory=_memory(device, number, settings),
                shortlist=shortlist,
                choose=Chooser(manifest, precision, settings.state_directory)
                if device == "cpu"
                else None,
            )

        slots = settings.slots or _SLOTS[precision]
        try:
            if device == "cpu":
                return open_in(slots, (settings.cache_megabytes or _CPU_CACHE_MEGABYTES) << 20)
            return open_with_room(open_in, manifest.name, number, slots, GENERAL_SHARE, settings)
        except (CudaError, MemoryError) as error:
            raise InvalidBundle(f"{path} cannot be loaded: {error}") from error

    backends = open_backends(numbers, open_on)
    try:
        attention = AttentionGraph.load(
            bundle, precision, device=device, device_id=numbers[next(iter(backends))]
        )
    except InvalidBundle:
        for backend in backends.values():
            backend.close()
        raise
    resident: dict[str, BeamBackend] = {}
    if settings.resident and device == "cuda" and bundle.has_resident(precision):
        resident = open_resident(bundle, precision, settings, {d: numbers[d] for d in backends})
    return OpenedBundle(
        manifest, precision, tokenizers, backends, attention, device, resident, shortlist
    )


def _memory(device: Device, number: int, settings: Settings) -> Memory:
    return CudaMemory(number, capture=settings.capture) if device == "cuda" else HostMemory()


def open_resident(
    bundle: Bundle, precision: Precision, settings: Settings, numbers: Mapping[str, int]
) -> dict[str, BeamBackend]:
    """A backend with the beam searches on it for each GPU that has room."""
    resident: dict[str, BeamBackend] = {}
    for device, number in numbers.items():

        def open_in(slots: int, cache_bytes: int, number: int = number) -> BeamBackend:
            return ResidentBackend.load(
                bundle,
                precision,
                slots=slots,
                threads=settings.threads,
                cache_bytes=cache_bytes,
                memory=_memory("cuda", number, settings),
            )

        slots, model = settings.slots or _SLOTS[precision], f"beam search of {bundle.manifest.name}"
        try:
            resident[device] = open_with_room(open_in, model, number, slots, BEAM_SHARE, settings)
        except (CudaError, MemoryError, InvalidBundle) as error:
            logger.error("beam searches do not run on %s: %s", device, error)
    return resident


def open_backends(
    numbers: Mapping[str, int], open_on: Callable[[int], Backend]
) -> dict[str, Backend]:
    """A backend for each device that has one; raises ``InvalidBundle`` if none has."""
    backends: dict[str, Backend] = {}
    failed: dict[str, InvalidBundle] = {}
    for device, number in numbers.items():
        try:
            backends[device] = open_on(number)
        except InvalidBundle as error:
            failed[device] = error
    for device, reason in failed.items():
        if not backends:
            raise reason
        logger.error("not on %s: %s", device, reason)
    return backends


def _shortlist(bundle: Bundle, precision: Precision) -> Shortlist | None:
    """The bundle's shortlist; ``None`` in fp16, whose graphs compute the whole vocabulary."""
    if precision == "fp16":
        logger.warning("%s in fp16 uses no shortlist", bundle.manifest.name)
        return None
    shortlist = bundle.shortlist()
    if shortlist is None:
        raise InvalidBundle(f"{bundle.path} has no shortlist, which the service is set to use")
    return shortlist


LoadModel = Callable[[Path, Settings, ObserverFor], Awaitable[LoadedModel]]
"""Such as ``load_model``."""


async def load_model(
    path: Path,
    settings: Settings,
    observer_for: ObserverFor,
    *,
    open_bundle: Callable[[Path, Settings], OpenedBundle] = open_bundle,
) -> LoadedModel:
    """Load a bundle, start its engines and verify its examples; raises ``InvalidBundle``."""
    opened = await _in_thread(lambda: open_bundle(path, settings))
    manifest = opened.manifest
    if opened.device == "cuda":
        # The last reference to a session may be given up on the event loop.
        ignore_other_captures()

    def engine(
        device: str, backend: Backend | BeamBackend, scheduler: type[BatchScheduler]
    ) -> Engine:
        of_engine = scheduler(
            backend.limits,
            manifest.special_ids,
            max_padded_tokens=settings.max_padded_tokens,
            max_batch_tokens=settings.max_batch_tokens or _BATCH_TOKENS[opened.device],
            # A full batch with the bundle's own options has this many rows.
            max_batch_rows=backend.limits.slots * manifest.decoding.beam_size,
        )
        observe = observer_for(manifest.name, device).iterated
        if opened.device == "cpu":
            return Engine(backend, of_engine, observe, device=device)
        prepare = partial(warm_up, backend, manifest.name, device, settings)
        return Engine(backend, of_engine, observe, device=device, prepare=prepare)

    engines = {name: engine(name, each, Scheduler) for name, each in opened.backends.items()}
    resident = {name: engine(name, each, BeamScheduler) for name, each in opened.resident.items()}
    group = EngineGroup(tuple(engines.values()), tuple(resident.values()))
    observer = observer_for(manifest.name, next(iter(engines)))
    attention = AttentionReader(opened.attention, manifest.limits)
    results = ResultCache(group.decode, settings.result_megabytes << 20, observer.looked_up)
    model = LoadedModel(manifest, opened.precision, opened.tokenizers, group, attention, results)
    try:
        await group.start()
        await _prove_engines(engines, model, path, opened)
        await _prove_resident(resident, model, path, opened)
    except BaseException:
        await model.close()
        raise
    return model


async def _prove_resident(
    engines: Mapping[str, Engine], model: LoadedModel, path: Path, opened: OpenedBundle
) -> None:
    """Stop the engines that do not reproduce the examples as the others do, or that fit none."""
    for device, engine in engines.items():
        fitting = [
            example
            for example in model.manifest.examples
            if engine.accepts(_options(model.directed[example.direction], example))
        ]
        try:
            if not fitting:
                raise InvalidBundle(f"{path} has no example that shows whether they are right")
            await _prove(engine, model, fitting, path, opened)
        except InvalidBundle as error:
            await engine.close()
            logger.error("beam searches do not run on %s: %s", device, error)
        else:
            logger.info("beam searches of %s run on %s", model.name, device)


async def _prove_engines(
    engines: Mapping[str, Engine], model: LoadedModel, path: Path, opened: OpenedBundle
) -> None:
    """Stop the engines that fail on an example; raises ``InvalidBundle`` if none is left.

    A shortlist may lack tokens of some examples, which cannot be reproduced with it.
    """
    shortlist = opened.shortlist
    possible = [
        example
        for example in model.manifest.examples
        if shortlist is None
        or {*example.target_ids.get(opened.precision, ())}
        <= {*shortlist.ids_for(example.source_ids).tolist()}
    ]
    for device, engine in engines.items():
        try:
            await _prove(engine, model, possible, path, opened)
        except InvalidBundle as error:
            await engine.close()
            if not model.engine.alive:
                raise
            logger.error("not on %s: %s", device, error)


def announcing(
    load: Callable[[Path], Awaitable[LoadedModel]], announce: Announce
) -> Callable[[FoundBundle], Awaitable[LoadedModel]]:
    """Wraps ``load`` in a loader that logs each loaded model and reports it to ``announce``."""

    async def loader(bundle: FoundBundle) -> LoadedModel:
        started = time.perf_counter()
        model = await load(bundle.path)
        seconds = time.perf_counter() - started
        manifest = model.manifest
        announce(facts_of(model), seconds)
        logger.info(
            "model loaded",
            extra={
                "model": model.name,
                "version": manifest.version,
                "directions": len(manifest.directions),
                "precision": model.precision,
                "seconds": round(seconds, 2),
            },
        )
        return model

    return loader


def facts_of(model: LoadedModel) -> dict[str, str]:
    """The labels of ``nmt_model_info`` for a model."""
    manifest = model.manifest
    return {
        "model": model.name,
        "version": manifest.version,
        "source": ",".join(dict.fromkeys(d.source for d in manifest.directions)),
        "target": ",".join(dict.fromkeys(d.target for d in manifest.directions)),
        "precision": model.precision,
        "sha256": hashlib.sha256(manifest.to_json().encode()).hexdigest(),
    }


async def _in_thread(work: Callable[[], OpenedBundle]) -> OpenedBundle:
    """Run ``work`` in a thread. If the call is cancelled, the bundle is closed once opened."""
    opening = asyncio.ensure_future(asyncio.to_thread(_aside, work))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise


def _aside(work: Callable[[], OpenedBundle]) -> OpenedBundle:
    """Run ``work`` in a fresh low-priority thread; threads started by ``work`` inherit it."""
    with ThreadPoolExecutor(1, "loading", initializer=lower_thread_priority) as thread:
        return thread.submit(work).result()


def _close_unwanted(opening: asyncio.Future[OpenedBundle]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _prove(
    engine: Engine,
    model: LoadedModel,
    examples: Sequence[Example],
    path: Path,
    opened: OpenedBundle,
) -> None:
    exact = [
        await _reproduces(engine, model.directed[example.direction], example, path, opened)
        for example in examples
    ]
    # Rounding changes few of them. A device that computes nothing finds all targets equally good.
    if len(exact) > 1 and not any(exact):
        raise InvalidBundle(f"{path} reproduces none of its {len(exact)} examples exactly")


async def _reproduces(
    engine: Engine, directed: DirectedModel, example: Example, path: Path, opened: OpenedBundle
) -> bool:
    """Whether the translation is the example's; false if another one is as good on a GPU."""
    model = directed.model
    expected = example.target_ids.get(model.precision)
    if expected is None:
        raise InvalidBundle(
            f"{path} does not say what its example {example.source!r} becomes in {model.precision}"
        )
    if directed.exact_source_ids(example.source) != example.source_ids:
        raise InvalidBundle(f"{path} does not read its example {example.source!r} as it should")
    try:
        decoded = await engine.decode(example.source_ids, _options(directed, example))
    except EngineError as error:
        raise InvalidBundle(f"{path} fails on its example {example.source!r}: {error}") from error
    found, expected = decoded.hypotheses[0].token_ids, directed.written(expected)
    if found == expected:
        return True
    behind = ""
    tokens = range(model.manifest.dimensions.vocabulary_size)
    # A device that computes wrongly may find any number.
    if opened.device == "cuda" and all(token in tokens for token in found):
        prefix = directed.direction.target_prefix
        best, proved = [
            await asyncio.to_thread(_log_prob, opened.attention, example.source_ids, prefix, ids)
            for ids in (found, expected)
        ]
        if best - proved <= EXAMPLE_TOLERANCE:
            return False
        behind = f"; the latter is {best - proved:.3f} nats per token behind"
    raise InvalidBundle(
        f"{path} does not reproduce its example {example.source!r} in {model.precision}: "
        f"{list(found)} instead of {list(expected)}{behind}"
    )


def _options(directed: DirectedModel, example: Example) -> DecodingOptions:
    manifest, length = directed.model.manifest, len(example.source_ids)
    return NO_OVERRIDES.resolve(
        manifest.decoding, manifest.limits, length, direction=directed.direction
    )


def _log_prob(
    attention: TeacherForced,
    source_ids: tuple[int, ...],
    prefix: tuple[int, ...],
    target_ids: tuple[int, ...],
) -> float:
    """Mean log-probability of the tokens of a target and of ``eos``."""
    maps = attention.run(source_ids, (*prefix, *target_ids))
    return float(maps.log_probs_T[len(prefix) :].mean())


def placed(path: Path, manifest: Manifest, settings: Settings) -> tuple[Device, Precision]:
    """Device and precision of a bundle on this machine; raises ``InvalidBundle``."""
    if manifest.decoding.beam_size > settings.max_beam_size:
        raise InvalidBundle(
            f"{path} decodes with beam_size {manifest.decoding.beam_size}; "
            f"DRAGOMAN_MAX_BEAM_SIZE permits at most {settings.max_beam_size}"
        )
    try:
        return place(manifest, settings, available_device(settings.device))
    except DeviceUnavailable as error:
        raise InvalidBundle(f"{path} cannot be loaded: {error}") from error


def place(manifest: Manifest, settings: Settings, available: Device) -> tuple[Device, Precision]:
    """The device and precision for a bundle; raises ``InvalidBundle``.

    On a GPU, each integer product would be copied to the CPU and back. Graphs in int8 therefore run
    on the CPU, unless the settings name both int8 and the GPU.
    """
    if settings.precision == "auto":
        precision = next(p for p in _PREFERENCE[available] if p in manifest.precisions)
    elif settings.precision in manifest.precisions:
        precision = settings.precision
    else:
        raise InvalidBundle(
            f"bundle {manifest.name} offers {', '.join(manifest.precisions)}; "
            f"not {settings.precision}, which the service is set to"
        )
    named = (settings.device, settings.precision) == ("cuda", "int8")
    if available == "cuda" and precision == "int8" and not named:
        logger.warning(
            "%s in int8 runs on the CPU; exporting or importing it again adds graphs for the GPU",
            manifest.name,
        )
        return "cpu", precision
    return available, precision
