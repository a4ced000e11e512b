"""Opens and checks ONNX Runtime sessions of a bundle's graphs, on a CPU or an NVIDIA GPU."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import onnxruntime

from models.bundle.bundle import Bundle, graph_file
from models.bundle.graphs import (
    Signature,
    TensorType,
    check_signature,
    resident_signature,
    signature,
)
from models.bundle.manifest import GraphName, InvalidBundle, Manifest, Precision
from service.runtime import processor
from service.runtime.capture_gate import CaptureGate
from service.runtime.cuda import (
    ARCHITECTURES,
    CudaError,
    DriverNotReady,
    DriverUnusable,
    Gpu,
    find_gpus,
    free_memory,
)
from service.runtime.memory import Captured, Memory, RunOptions
from service.runtime.variants import Choice, Variant

logger = logging.getLogger(__name__)

Device = Literal["cpu", "cuda"]

_FREE_SECONDS = 30.0
"""Time between two runs of a session on a CPU that free memory."""
_FREED_AT = WeakKeyDictionary[onnxruntime.InferenceSession, float]()

_PLAIN_ATTENTION = 16
"""ONNX Runtime's ``AttentionBackend::MATH``: two matrix products and a softmax, for any shape."""
_FUSED_ATTENTION = 2
"""``EFFICIENT_ATTENTION``, CUTLASS: one launch for rows, entries and sources in multiples of 8."""


_MOST_OF_FREE = 0.9
"""Part of a GPU's free memory that the arena of a session may take."""
_NO_MEMORY = (
    "Failed to allocate memory",
    "is smaller than requested bytes",
    "out of memory",
    "CUDA failure 2:",
    "ALLOC_FAILED",
)
"""Words of ONNX Runtime's errors for a lack of memory: of its arenas, of their limits, of CUDA,
whose words may be mixed with another error's, see ``_WORDS_LOST``, and of cuBLAS."""

_CAPTURE_FAILED = re.compile(r"CUDA failure 90\d: [^;]* ;")

_WORDS_LOST = re.compile(r"CudaCall(?!.*failure \d+: [^;]* ; GPU=)", re.DOTALL)
"""ONNX Runtime formats an error of CUDA in a buffer that all threads share: it can be empty, cut
off or mixed where two threads fail at once. An arena then fails to recognise a lack of memory, the
only error that several threads meet again and again."""

_DRIVER_FILES = ("/proc/driver/nvidia", "/dev/nvidia0", "/dev/dxg", "/usr/lib/wsl/lib/libcuda.so.1")
"""One of these exists where there is an NVIDIA GPU; the last two are of WSL2."""


_gate = CaptureGate()


class DeviceUnavailable(Exception):
    """The configured device cannot be used by this process."""


class DeviceUnusable(DeviceUnavailable):
    """There is a GPU or its driver, which this process cannot use."""


class DeviceNotReady(DeviceUnusable):
    """There is a GPU, whose driver is not ready. Another process may be able to use it later."""


def available_device(wanted: Literal["auto", "cpu", "cuda"]) -> Device:
    """The device to run on; ``auto`` takes a GPU if this ONNX Runtime can use one.

    Raises ``DeviceUnavailable`` if a GPU is asked for by name and cannot be used, or if its driver
    is not ready. For ``auto``, the use of the CPU is logged once, with the reason if the machine
    has a GPU.
    """
    if wanted == "cpu":
        return "cpu"
    try:
        usable_gpus()
    except DeviceUnavailable as error:
        if wanted == "cuda" or isinstance(error, DeviceNotReady):
            raise
        if isinstance(error, DeviceUnusable) or any(map(os.path.exists, _DRIVER_FILES)):
            _log_once(logging.WARNING, f"models run on the CPU: {error}")
        else:
            _log_once(logging.INFO, "models run on the CPU: this machine has no NVIDIA GPU")
        return "cpu"
    return "cuda"


def missing_gpu(wanted: Literal["auto", "cpu", "cuda"]) -> str:
    """Why an installation for GPUs runs on the CPU; empty if it does not. Blocks."""
    if wanted != "auto" or not _is_for_gpus():
        return ""
    try:
        usable_gpus()
    except DeviceUnavailable as error:
        return str(error)
    return ""


def _is_for_gpus() -> bool:
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def usable_gpus() -> list[Gpu]:
    """The GPUs that ONNX Runtime can use; raises ``DeviceUnavailable`` if there is none.

    May wait a minute for the driver.
    """
    if not _is_for_gpus():
        raise DeviceUnavailable(
            "this onnxruntime cannot use a GPU: install dragoman with its extra gpu"
        )
    # Kernels warn at each step that duplicate indices would be wrong; only errors are shown.
    onnxruntime.set_default_logger_severity(3)
    # CUDA and cuDNN are installed as wheels, which the dynamic loader does not search.
    onnxruntime.preload_dlls()
    try:
        found = find_gpus()
    except DriverNotReady as error:
        raise DeviceNotReady(str(error)) from error
    except DriverUnusable as error:
        raise DeviceUnusable(str(error)) from error
    except CudaError as error:
        raise DeviceUnavailable(str(error)) from error
    usable = [gpu for gpu in found if gpu.supported]
    if len(usable) < len(found):
        named = ", ".join(
            f"{gpu.name} (compute capability {gpu.capability[0]}.{gpu.capability[1]})"
            for gpu in found
            if not gpu.supported
        )
        supported = ", ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
        reason = f"onnxruntime has no machine code for {named}; it has code for {supported}"
        if not usable:
            raise DeviceUnusable(reason)
        _log_once(logging.WARNING, f"not every GPU is used: {reason}")
    return usable


def chosen_gpus(wanted: str) -> list[Gpu]:
    """The usable GPUs: ``all``, or those with the numbers in ``wanted``, separated by commas.

    Raises ``DeviceUnavailable`` if there is none, or if a number names no usable GPU.
    """
    usable = {gpu.number: gpu for gpu in usable_gpus()}
    if wanted == "all":
        return list(usable.values())
    numbers = sorted({int(number) for number in wanted.split(",")})
    if missing := [number for number in numbers if number not in usable]:
        raise DeviceUnavailable(
            f"GPU {', '.join(map(str, missing))} cannot be used; "
            f"this process can use {', '.join(map(str, usable))}"
        )
    return [usable[number] for number in numbers]


@cache
def _log_once(level: int, text: str) -> None:
    logger.log(level, "%s", text)


def open_session(
    bundle: Bundle,
    graph: GraphName,
    precision: Precision,
    *,
    variant: Variant,
    device: Device = "cpu",
    device_id: int = 0,
    stream: int = 0,
    capture: bool = False,
    prepack: bool = True,
    into_slots: bool = False,
) -> onnxruntime.InferenceSession:
    """Open a graph in a variant and check its inputs and outputs.

    Where sums of signed products overflow, weights are always unsigned. A ``stream`` is the CUDA
    stream of all runs. With ``capture``, runs are captured into CUDA graphs by the id in their
    options. Without ``prepack`` a session is slower, but does not copy the weights into the layout
    of matrix products. With ``into_slots``, the encoder is extended by
    ``models.export.admission``. Raises ``InvalidBundle`` if the bundle does not offer the
    precision, or if the graph cannot be opened or its inputs and outputs differ from the manifest.
    """
    manifest = bundle.manifest
    if precision not in manifest.precisions:
        raise InvalidBundle(
            f"{bundle.path} offers {', '.join(manifest.precisions)}, not {precision}"
        )
    path = bundle.path / graph_file(graph, precision)
    content, weights = bundle.read(path.name), bundle.weights(precision)
    dimensions = manifest.dimensions
    if device == "cuda" and (graph, precision) == ("step", "fp16"):
        from models.export.averages import with_averages_as_products

        content = with_averages_as_products(content, dimensions)
    if into_slots:
        # Only processes that use a GPU pay for importing the writer of graphs.
        from models.export.admission import admission_graph, admission_signature

        content = admission_graph(content, dimensions, precision)
    options = onnxruntime.SessionOptions()
    # On a GPU, the CPU computes a few shapes only.
    options.intra_op_num_threads = variant.threads if device == "cpu" else 1
    options.log_severity_level = 3
    # Idle threads of one session must not spin on the cores that another one needs.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # The weights are read into memory, because a file that is memory-mapped may be changed or
    # truncated by other programs.
    stored = bundle.read(weights)
    options.add_external_initializers_from_files_in_memory([weights], [stored], [len(stored)])
    # A graph may read no other file. Relative names would otherwise be of the working directory.
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", os.devnull
    )
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if precision == "int8" and (variant.unsigned or overflows(manifest)):
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        with _gate.opening() if device == "cuda" else nullcontext():
            session = onnxruntime.InferenceSession(
                content,
                options,
                providers=_providers(
                    device,
                    device_id,
                    stream,
                    capture,
                    _FUSED_ATTENTION if graph == "resident" else _PLAIN_ATTENTION,
                ),
                # The fused operator is several times slower on a CPU than the two it replaces.
                disabled_optimizers=["SkipLayerNormFusion"] if device == "cpu" else None,
            )
    except Exception as error:
        # ONNX Runtime's exceptions have no common base class below Exception.
        if device == "cuda" and _lacks_memory(error):
            words = f"{path} needs more memory than GPU {device_id} has free"
            raise InvalidBundle(words) from error
        raise InvalidBundle(f"{path} cannot be opened by ONNX Runtime: {error}") from error
    if device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        # ONNX Runtime would silently fall back to the CPU.
        raise InvalidBundle(f"ONNX Runtime could not start CUDA for {path}; see its log")
    found = _signature_of(session)
    if into_slots:
        expected = admission_signature(dimensions, precision)
    elif graph == "resident":
        expected = resident_signature(dimensions, precision, _beam_of(found))
    else:
        expected = signature(graph, dimensions, precision)
    check_signature(str(path), expected, found)
    return session


def run(
    session: onnxruntime.InferenceSession,
    binding: onnxruntime.IOBinding,
    options: RunOptions = None,
) -> None:
    """Run a session; raises ``MemoryError`` where ONNX Runtime names a lack of memory in a text.

    A shape that cannot be captured runs without, then and later. While another thread opens a
    session, a shape runs without and is captured when it occurs again.
    """
    try:
        if isinstance(options, Captured) and not options.settled:
            with _gate.capture() as allowed:
                _run(session, binding, options if allowed else options.plain)
                options.settled = allowed
        else:
            _run(session, binding, options)
    except Exception as error:
        if _lacks_memory(error) or _WORDS_LOST.search(str(error)):
            raise MemoryError(str(error)) from error
        raise


def _lacks_memory(error: Exception) -> bool:
    return any(words in str(error) for words in _NO_MEMORY)


def _run(
    session: onnxruntime.InferenceSession, binding: onnxruntime.IOBinding, options: RunOptions
) -> None:
    chosen = options.options if isinstance(options, Captured) else options
    if chosen is None:
        chosen = _options_on_host(session)
    try:
        session.run_with_iobinding(binding, chosen)
    except Exception as error:
        if not (_CAPTURE_FAILED.search(str(error)) or _WORDS_LOST.search(str(error))):
            raise
        # A run that captures nothing may report the failure of the capture before it.
        if isinstance(options, Captured):
            logger.warning("a batch runs without a captured graph: %s", error)
            chosen = options.options = options.plain
        session.run_with_iobinding(binding, chosen)


def _options_on_host(session: onnxruntime.InferenceSession) -> onnxruntime.RunOptions | None:
    """The options of a run, which now and then frees the memory that earlier runs needed.

    An arena keeps the memory of its largest run: 80 MB after 64 sentences of eight beams.
    """
    now = time.monotonic()
    if now < _FREED_AT.setdefault(session, now) + _FREE_SECONDS:
        return None
    _FREED_AT[session] = now
    on_host = session.get_providers()[0] == "CPUExecutionProvider"
    return _freeing() if on_host else None


@cache
def _freeing() -> onnxruntime.RunOptions:
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


def overflows(manifest: Manifest) -> bool:
    """Whether sums of products with the bundle's int8 weights, as they are, overflow here."""
    return processor.int8_saturates() and not manifest.int8_fits_16_bits


def opener(
    bundle: Bundle, precision: Precision, *, memory: Memory
) -> Callable[..., onnxruntime.InferenceSession]:
    """``open_session`` for graphs that run where ``memory`` is, in the order of its work."""
    return partial(
        open_session,
        bundle,
        precision=precision,
        device="cuda" if memory.device == "cuda" else "cpu",
        device_id=memory.device_id,
        stream=memory.stream,
    )


class GraphSessions:
    """The sessions of one graph, one for each variant in use."""

    def __init__(
        self, open_in: Callable[..., onnxruntime.InferenceSession], variant: Variant
    ) -> None:
        """``open_in`` opens the graph in the ``variant`` given by that name."""
        self._open_in: Callable[..., onnxruntime.InferenceSession] | None = open_in
        started = time.perf_counter()
        self._sessions = {variant: open_in(variant=variant)}
        self.opening_seconds = time.perf_counter() - started
        self._choice = Choice(variant)

    def of(self, rows: int) -> tuple[Variant, onnxruntime.InferenceSession]:
        """The variant and the session for a run with this many rows."""
        variant = self._choice.of(rows)
        return variant, self._sessions[variant]

    def use(self, choice: Choice) -> None:
        """Open the variants of the choice that are not open; raises as ``open_session`` does."""
        for variant in choice.variants - self._sessions.keys():
            if self._open_in is None:
                raise RuntimeError(f"{variant} was not opened before the choice was final")
            self._sessions[variant] = self._open_in(variant=variant)
        self._choice = choice

    def settle(self) -> None:
        """Close the variants that are not in use, and free what opens others."""
        self._open_in = None
        self._sessions = {v: self._sessions[v] for v in self._choice.variants}


def _beam_of(resident: Signature) -> int:
    """The widest beam of a resident graph."""
    sums = resident.inputs.get("sums")
    rows = sums.shape[-1] if sums is not None and sums.shape else None
    return rows if isinstance(rows, int) else 1


def _providers(
    device: Device,
    device_id: int,
    stream: int,
    capture: bool = False,
    attention: int = _PLAIN_ATTENTION,
) -> list[str | tuple[str, dict[str, Any]]]:
    if device == "cpu":
        return ["CPUExecutionProvider"]
    settings: dict[str, Any] = {
        "device_id": device_id,
        # Each extension doubles the arena. Extensions of the requested size would not serve a
        # larger batch, and regions of an arena never merge.
        "arena_extend_strategy": "kNextPowerOfTwo",
        "gpu_mem_limit": int(_MOST_OF_FREE * free_memory(device_id)),
        # By default, cuDNN builds and caches a plan for each batch size, which takes up to 200 ms.
        "sdpa_kernel": attention,
    }
    if stream:
        settings["user_compute_stream"] = stream
    if capture:
        settings["enable_cuda_graph"] = 1
    return [("CUDAExecutionProvider", settings), "CPUExecutionProvider"]


def _signature_of(session: onnxruntime.InferenceSession) -> Signature:
    def types(nodes: Sequence[onnxruntime.NodeArg]) -> dict[str, TensorType]:
        return {
            node.name: TensorType(
                node.type.removeprefix("tensor(").removesuffix(")"), tuple(node.shape)
            )
            for node in nodes
        }

    return Signature(types(session.get_inputs()), types(session.get_outputs()))
