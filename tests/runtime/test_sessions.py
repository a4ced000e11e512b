from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest

from service.runtime import cuda, sessions
from service.runtime.memory import Captured
from service.runtime.sessions import (
    DeviceNotReady,
    DeviceUnavailable,
    available_device,
    chosen_gpus,
    missing_gpu,
    usable_gpus,
)
from service.threads.allocator import resident_bytes


class FakeDriver:
    """The functions of the CUDA runtime that find GPUs. A GPU is a name and its capability."""

    def __init__(self, *gpus: tuple[str, int, int], code: int = 0, version: int = 0) -> None:
        self._gpus, self._code, self._version = gpus, code, version
        self.failing = 1 << 30
        """How often ``code`` is returned."""

    def cudaGetDeviceCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self._gpus)
        self.failing -= 1
        return self._code if self.failing >= 0 else 0

    def cudaGetErrorName(self, code: int) -> bytes:  # noqa: N802
        return b"cudaErrorSystemNotReady"

    def cudaGetErrorString(self, code: int) -> bytes:  # noqa: N802
        return b"system not yet initialized"

    def cudaDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self._version
        return 0

    def cudaGetDeviceProperties(self, properties: Any, number: int) -> int:  # noqa: N802
        properties.value = self._gpus[number][0].encode()
        return 0

    def cudaDeviceGetAttribute(self, value: Any, attribute: int, number: int) -> int:  # noqa: N802
        value._obj.value = self._gpus[number][{75: 1, 76: 2}[attribute]]
        return 0


H200, V100, B200 = ("NVIDIA H200", 9, 0), ("Tesla V100", 7, 0), ("NVIDIA B200", 10, 0)
Install = Callable[[FakeDriver | None], None]
ORIN = ("Jetson AGX Orin", 8, 7)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Sets the driver of this machine; ``None`` is a machine without the CUDA runtime."""

    def install(found: FakeDriver | None) -> None:
        if found is None:
            monkeypatch.setattr(cuda, "_LIBRARIES", ("libcudart-missing.so",))
        else:
            monkeypatch.setattr(cuda, "_load_runtime", lambda: found)

    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(cuda, "_LINKED", ())
    sessions._log_once.cache_clear()
    return install


def test_gpus_with_machine_code_are_usable_and_others_are_named(
    driver: Install, caplog: pytest.LogCaptureFixture
) -> None:
    driver(FakeDriver(V100, H200, ORIN))
    for _ in range(2):
        assert [(gpu.number, gpu.name) for gpu in usable_gpus()] == [
            (1, "NVIDIA H200"),
            (2, "Jetson AGX Orin"),
        ]
    (line,) = caplog.messages
    assert line.startswith(
        "not every GPU is used: onnxruntime has no machine code for Tesla V100 (compute "
    )
    assert available_device("auto") == available_device("cuda") == "cuda"
    assert available_device("cpu") == "cpu"


def test_setting_chooses_from_the_usable_gpus(driver: Install) -> None:
    driver(FakeDriver(V100, H200, ORIN))
    assert [gpu.device for gpu in chosen_gpus("all")] == ["cuda:1", "cuda:2"]
    assert [gpu.number for gpu in chosen_gpus("2")] == [2]
    assert [gpu.number for gpu in chosen_gpus("2,1")] == [1, 2]
    with pytest.raises(DeviceUnavailable, match=r"GPU 0, 5 cannot be used; .* can use 1, 2"):
        chosen_gpus("0,1,5")


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (FakeDriver(V100, B200), ["Tesla V100", "7.0", "NVIDIA B200", "10.0", "12.0"]),
        (FakeDriver(code=100), ["no NVIDIA GPU"]),
        (FakeDriver(), ["no NVIDIA GPU"]),
        (FakeDriver(code=35), ["no NVIDIA driver"]),
        (FakeDriver(code=35, version=12040), ["driver", "12.4", "CUDA 13", "driver 580 or later"]),
        (FakeDriver(code=3), ["error 3, cudaErrorSystemNotReady: system not yet initialized"]),
        (None, ["libcudart", "extra gpu"]),
    ],
    ids=["architecture", "no GPU", "none seen", "no driver", "old driver", "error", "no library"],
)
def test_unusable_gpu_has_one_line_that_says_why(
    driver: Install,
    found: FakeDriver | None,
    named: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver(found)
    # WSL2 has no other file of a driver.
    monkeypatch.setattr("os.path.exists", "/dev/dxg".__eq__)
    with pytest.raises(DeviceUnavailable) as caught:
        available_device("cuda")
    assert all(name in str(caught.value) for name in named)
    assert [available_device("auto") for _ in range(2)] == ["cpu", "cpu"]
    (line,) = caplog.messages
    assert str(caught.value) in line


def test_machine_without_a_gpu_runs_on_the_cpu_without_a_warning(
    driver: Install, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(None)
    monkeypatch.setattr(sessions, "_DRIVER_FILES", ("/missing",))
    caplog.set_level(logging.INFO)
    with pytest.raises(DeviceUnavailable, match="extra gpu"):
        available_device("cuda")
    assert [available_device("auto") for _ in range(2)] == ["cpu", "cpu"]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "models run on the CPU: this machine has no NVIDIA GPU")
    ]


@pytest.mark.parametrize("found", [FakeDriver(V100), FakeDriver(code=35, version=12040)])
def test_gpu_without_files_of_a_driver_is_no_machine_without_a_gpu(
    driver: Install,
    found: FakeDriver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver(found)
    monkeypatch.setattr(sessions, "_DRIVER_FILES", ("/missing",))
    assert available_device("auto") == "cpu"
    ((level, line),) = [(record.levelname, record.message) for record in caplog.records]
    assert level == "WARNING"
    assert line.startswith("models run on the CPU: ")


def test_runtime_of_cuda_12_is_not_taken_for_that_of_13(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: str) -> FakeDriver:
        if name != "libcudart.so.12":
            raise OSError(name)
        return FakeDriver(H200)

    monkeypatch.setattr("ctypes.CDLL", library)
    with pytest.raises(cuda.CudaError, match=r"libcudart\.so\.13"):
        cuda.find_gpus()


def test_missing_library_of_the_provider_is_named(
    driver: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(FakeDriver(H200))
    monkeypatch.setattr(cuda, "_LINKED", ("libcudnn-missing.so.9",))
    with pytest.raises(DeviceUnavailable, match=r"libcudnn-missing\.so\.9"):
        usable_gpus()


def test_onnxruntime_without_cuda_asks_for_the_extra(
    driver: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(FakeDriver(H200))
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(DeviceUnavailable, match="extra gpu"):
        available_device("cuda")


@pytest.mark.parametrize(("passes_after", "ready"), [(2, True), (99, False)])
def test_driver_that_is_not_ready_is_waited_for_and_never_replaced_by_the_cpu(
    driver: Install,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    passes_after: int,
    ready: bool,
) -> None:
    monkeypatch.setattr(cuda, "_NOT_YET_SECONDS", 0.2)
    monkeypatch.setattr(cuda, "_RETRY_SECONDS", 0.01)
    found = FakeDriver(H200, code=802)
    found.failing = passes_after
    driver(found)
    if ready:
        assert available_device("auto") == "cuda"
        (line,) = caplog.messages
        assert "error 802, cudaErrorSystemNotReady: system not yet initialized; waiting" in line
        return
    for wanted in ("auto", "cuda"):
        with pytest.raises(DeviceNotReady):
            available_device(wanted)


def test_architecture_specific_code_runs_on_its_own_capability_only(driver: Install) -> None:
    driver(FakeDriver(("NVIDIA GeForce RTX 5090", 12, 0), ("NVIDIA GB10", 12, 1)))
    assert [gpu.number for gpu in usable_gpus()] == [0]


@pytest.mark.parametrize(("found", "missing"), [(FakeDriver(H200), False), (None, True)])
def test_installation_for_gpus_that_runs_on_the_cpu_says_why(
    driver: Install, found: FakeDriver | None, missing: bool
) -> None:
    driver(found)
    assert bool(missing_gpu("auto")) == missing
    assert missing_gpu("cpu") == ""


@pytest.mark.parametrize(
    "words",
    [
        "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 9",
        "BFCArena::AllocateRawInternal Available memory of 0 is smaller than requested bytes of 9",
        "CUDA failure 2: out of memory ; GPU=0",
        "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED",
        "onnxruntime::CudaCall(ERRTYPE) CUDA fail",
        "onnxruntime::CudaCall(ERRTYPE) CUDA failure 2: ouoperation failGPU=0 ; hostname=vm ;",
        "onnxruntime::CudaCall(ERRTYPE) CUDA failure 2: ouoperation not permitted ; GPU=0 ;",
        "onnxruntime::CudaCall(ERRTYPE) CUDA failure 9out of memoryGPU=0 ; hostname=vm ;",
    ],
)
def test_lack_of_memory_that_onnxruntime_names_in_a_text_is_a_memory_error(words: str) -> None:
    class Session:
        def run_with_iobinding(self, *_: object) -> None:
            raise RuntimeError(words)

    with pytest.raises(MemoryError):
        sessions.run(cast(Any, Session()), cast(Any, None))


@pytest.mark.parametrize(
    "words",
    ["CUDA failure 901: operation failed due to a previous error ;", "CudaCall(ERRTYPE, int) \n\n"],
    ids=["named", "words lost to another thread"],
)
def test_shape_whose_capture_fails_runs_without_then_and_later(words: str) -> None:
    ran = []

    class Session:
        def run_with_iobinding(self, _: object, options: str) -> None:
            ran.append(options)
            if options == "captured":
                raise RuntimeError(words)

    options = Captured(cast(Any, "captured"), cast(Any, "plain"))
    for _ in range(2):
        sessions.run(cast(Any, Session()), cast(Any, None), options)
    assert ran == ["captured", "plain", "plain"]


def test_session_on_the_cpu_returns_the_memory_of_its_largest_run_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = onnx.helper.make_tensor_value_info
    square = onnx.helper.make_node("Mul", ["a", "a"], ["square"])
    total = onnx.helper.make_node("ReduceSum", ["square"], ["total"], keepdims=0)
    given, found = number("a", onnx.TensorProto.FLOAT, ["n", "n"]), number("total", 1, [])
    graph = onnx.helper.make_graph([square, total], "graph", [given], [found])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    made.ir_version = 10
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def ran(size: int) -> int:
        binding = session.io_binding()
        binding.bind_cpu_input("a", np.ones((size, size), np.float32))
        binding.bind_output("total")
        sessions.run(session, binding)
        assert binding.copy_outputs_to_cpu()[0] == pytest.approx(size**2, rel=0.01)
        return resident_bytes()

    ran(3)  # The first region of an arena stays.
    ran(3000)
    large = ran(3)
    monkeypatch.setattr(sessions, "_FREE_SECONDS", 0)
    assert ran(3) < large - (24 << 20)


def test_shape_is_captured_once_no_session_is_being_opened() -> None:
    ran = []

    class Session:
        def run_with_iobinding(self, _: object, options: str) -> None:
            ran.append(options)

    options = Captured(cast(Any, "captured"), cast(Any, "plain"))
    with sessions._gate.opening():
        sessions.run(cast(Any, Session()), cast(Any, None), options)
    sessions.run(cast(Any, Session()), cast(Any, None), options)
    with sessions._gate.opening():
        sessions.run(cast(Any, Session()), cast(Any, None), options)
    assert ran == ["plain", "captured", "captured"]


def test_run_that_reports_the_failed_capture_before_it_is_repeated() -> None:
    said = [
        "CUDA failure 901: operation failed due to a previous error ;",
        "CudaCall(ERRTYPE) CUDA failure 700: x ; GPU=0 ;",
    ]

    class Session:
        def run_with_iobinding(self, *_: object) -> None:
            if len(said) > 1:
                raise RuntimeError(said.pop(0))

    sessions.run(cast(Any, Session()), cast(Any, None), cast(Any, "plain"))
    said *= 2
    with pytest.raises(RuntimeError, match="failure 700"):
        sessions.run(cast(Any, Session()), cast(Any, None), cast(Any, "plain"))


def test_session_on_a_gpu_names_its_attention_kernels_and_most_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "free_memory", lambda _: 1 << 30)
    ((provider, options), cpu) = sessions._providers("cuda", 1, 77)
    assert (provider, cpu) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert isinstance(options, dict)
    assert options["sdpa_kernel"] == 16
    assert (options["device_id"], options["user_compute_stream"]) == (1, 77)
    assert options["gpu_mem_limit"] == int(0.9 * 2**30)
