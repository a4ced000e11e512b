"""Opens and checks ONNX Runtime sessions of a bundle's graphs, on a CPU or an NVIDIA GPU."""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import onnxruntime

from models.bundle.bundle import Bundle
from models.bundle.graphs import Signature, TensorType, check_signature, signature
from models.bundle.manifest import GraphName, InvalidBundle, Precision

logger = logging.getLogger(__name__)

Device = Literal["cpu", "cuda"]


class DeviceUnavailable(Exception):
    """The configured device cannot be used by this process."""


def available_device(wanted: Literal["auto", "cpu", "cuda"]) -> Device:
    """The device to run on; ``auto`` takes a GPU if this ONNX Runtime can use one.

    Raises ``DeviceUnavailable`` if a GPU is asked for by name and cannot be used.
    """
    if wanted == "cpu":
        return "cpu"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        if wanted == "cuda":
            raise DeviceUnavailable(
                "this onnxruntime cannot use a GPU: install dragoman with its extra gpu"
            )
        return "cpu"
    # CUDA and cuDNN are installed as wheels, which the dynamic loader does not search.
    onnxruntime.preload_dlls()
    if _count_gpus() == 0:
        if wanted == "cuda":
            raise DeviceUnavailable("there is no NVIDIA GPU, or its driver is not loaded")
        return "cpu"
    return "cuda"


def _count_gpus() -> int:
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def open_session(
    bundle: Bundle,
    graph: GraphName,
    precision: Precision,
    *,
    threads: int,
    device: Device = "cpu",
    device_id: int = 0,
    prepack: bool = True,
) -> onnxruntime.InferenceSession:
    """Open a graph and check its inputs and outputs.

    Without ``prepack`` a session is slower, but does not copy the weights into the layout of
    matrix products. Raises ``InvalidBundle`` if the bundle does not offer the precision, or if the
    graph cannot be opened or its inputs and outputs differ from the manifest.
    """
    manifest = bundle.manifest
    if precision not in manifest.precisions:
        raise InvalidBundle(
            f"{bundle.path} offers {', '.join(manifest.precisions)}, not {precision}"
        )
    path = bundle.graph(graph, precision)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Idle threads of one session must not spin on the cores that another one needs.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if precision == "int8" and int8_saturates():
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        session = onnxruntime.InferenceSession(
            path,
            options,
            providers=_providers(device, device_id),
            # The fused operator is several times slower on a CPU than the two it replaces.
            disabled_optimizers=["SkipLayerNormFusion"] if device == "cpu" else None,
        )
    except Exception as error:
        # ONNX Runtime's exceptions have no common base class below Exception.
        raise InvalidBundle(f"{path} cannot be opened by ONNX Runtime: {error}") from error
    if device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        # ONNX Runtime would silently fall back to the CPU.
        raise InvalidBundle(f"ONNX Runtime could not start CUDA for {path}; see its log")
    expected = signature(graph, manifest.dimensions, precision)
    check_signature(str(path), expected, _signature_of(session))
    return session


def _providers(device: Device, device_id: int) -> list[str | tuple[str, dict[str, Any]]]:
    if device == "cpu":
        return ["CPUExecutionProvider"]
    settings: dict[str, Any] = {
        "device_id": device_id,
        # By default the arena doubles at each extension and never shrinks.
        "arena_extend_strategy": "kSameAsRequested",
    }
    return [("CUDAExecutionProvider", settings), "CPUExecutionProvider"]


def int8_saturates(cpu: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether int8 products overflow here: x86-64 without VNNI adds pairs in 16 bits."""
    if platform.machine() != "x86_64" or not cpu.exists():
        return False
    found = re.search(r"^flags\s*:(.*)$", cpu.read_text(encoding="utf-8"), re.MULTILINE)
    return found is not None and not {"avx512_vnni", "avx_vnni"} & set(found[1].split())


def _signature_of(session: onnxruntime.InferenceSession) -> Signature:
    def types(nodes: Sequence[onnxruntime.NodeArg]) -> dict[str, TensorType]:
        return {
            node.name: TensorType(
                node.type.removeprefix("tensor(").removesuffix(")"), tuple(node.shape)
            )
            for node in nodes
        }

    return Signature(types(session.get_inputs()), types(session.get_outputs()))
