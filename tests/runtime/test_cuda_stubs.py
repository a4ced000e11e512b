"""onnxruntime-gpu on stubs of the CUDA libraries: node placement and calls of the driver.

Skipped without ``build/cuda-stubs``, which ``tests/runtime/cuda_stubs/build.sh`` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models.bundle.manifest import Precision
from tests.support.networks import NETWORKS, random_network, write_bundle

ROOT = Path(__file__).parents[2]
STUBS = Path(os.environ.get("CUDA_STUBS", ROOT / "build" / "cuda-stubs"))
LAUNCHES_OF_A_STEP = 70
"""Kernels and cuBLAS calls of the committed bundle, which has two decoder layers. A step of the
base network, of six layers, has 174."""
LAUNCHES_OF_A_RESIDENT_STEP = 94
"""Launches of a step with the whole beam search. The base network has 182."""
LAUNCHES_OF_AN_ADMISSION = 204
"""Launches of an admission with its writes to four arrays of each pool."""
MOST_CALLS_OF_AN_ENCODE = 24

NEEDS_STUBS = pytest.mark.skipif(
    not (STUBS / "env.sh").exists(), reason="no CUDA stubs; see tests/runtime/cuda_stubs/build.sh"
)
pytestmark = [pytest.mark.slow, NEEDS_STUBS]


def environment(**host: str) -> dict[str, str]:
    """Environment of a process on the stubs; ``host`` says what the machine has."""
    return os.environ | {
        "LD_LIBRARY_PATH": str(STUBS / "lib"),
        "PYTHONPATH": f"{STUBS / 'site'}:{ROOT}",
        **host,
    }


def run(module: str, *arguments: str, **host: str) -> str:
    """Output of a module on the stubs, of which ``host`` are environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment(**host),
        capture_output=True,
        text=True,
        check=False,
    )
    # Shown where the caller's assertions fail.
    sys.stderr.write(done.stderr)
    assert done.returncode == 0
    return done.stdout


@pytest.fixture(scope="module", params=["bundles/general-de-en", "ssru"])
def observed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    path = request.param
    if path == "ssru":
        folder, network = tmp_path_factory.mktemp("ssru"), random_network(NETWORKS["ssru"])
        precisions: tuple[Precision, ...] = ("int8", "fp16")
        path = write_bundle(network, folder / "ssru", precisions, share_weights=True, beam=4).path
    printed = run("tests.runtime.cuda_stubs.observe", str(path))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return {**found, "recurrent": request.param == "ssru"}


@pytest.mark.parametrize(
    ("graph", "on_cpu"),
    [
        ("encoder", {"Concat", "Squeeze"}),
        ("step", {"Concat"}),
        ("attention", {"Concat", "Squeeze"}),
    ],
)
def test_only_shapes_are_computed_on_the_cpu_and_no_node_copies(
    observed: dict[str, Any], graph: str, on_cpu: set[str]
) -> None:
    nodes = observed["placement"][graph]
    assert set(nodes["CPU"]) == on_cpu
    assert len(nodes["CPU"]) <= (6 if observed["recurrent"] else 4)
    assert not [name for name in nodes["CUDA"] if name.startswith("Memcpy")]


def test_dequantised_weights_are_computed_when_the_graph_is_opened(
    observed: dict[str, Any],
) -> None:
    assert "Max" not in observed["placement"]["step"]["CUDA"]
    # The casts are those of the inputs and of the logits.
    assert observed["placement"]["step"]["CUDA"].count("Cast") == 2


def test_step_copies_once_each_way_waits_once_and_allocates_nothing(
    observed: dict[str, Any],
) -> None:
    for step in [*observed["steps"], observed["after"]]:
        assert (step["COPY H2D"], step["COPY D2H"]) == (1, 1)
        assert {name for name in step if name.startswith("SYNC")} == {"SYNC stream"}
        assert step["SYNC stream"] == 1
        assert not {"MALLOC", "FREE", "COPY H2H"} & step.keys()
        assert step["KERNEL"] + step["CUBLAS"] <= LAUNCHES_OF_A_STEP


def test_step_and_encode_call_no_cudnn(observed: dict[str, Any]) -> None:
    for calls in (observed["encode"], *observed["steps"]):
        assert not [name for name in calls if name.startswith("CUDNN")]


def test_encode_and_departure_take_few_calls_of_the_driver(observed: dict[str, Any]) -> None:
    kernels = ("KERNEL", "CUBLAS")
    calls = {name: n for name, n in observed["encode"].items() if name not in kernels}
    assert sum(calls.values()) <= MOST_CALLS_OF_AN_ENCODE
    assert "MALLOC" not in calls
    assert observed["departure"] == {"COPY D2D": 2}


def test_captured_step_is_one_launch_in_every_batch_of_its_size(observed: dict[str, Any]) -> None:
    captured = observed["captured"]
    for step in (*captured["steps"], captured["after"]):
        assert step == {"COPY H2D": 1, "GRAPH launch": 1, "COPY D2H": 1, "SYNC stream": 1}


def test_capture_has_nothing_that_a_replay_would_read_from_the_host(
    observed: dict[str, Any],
) -> None:
    inside = {
        name.removeprefix("[capture] ")
        for name in observed["captured"]["capture"]
        if name.startswith("[capture] ")
    }
    assert inside == {"KERNEL", "CUBLAS", "COPY D2D"}


def test_every_node_of_the_resident_graph_is_on_the_gpu(observed: dict[str, Any]) -> None:
    assert set(observed["placement"]["resident"]) == {"CUDA"}


def test_resident_step_is_launches_one_copy_and_one_event(observed: dict[str, Any]) -> None:
    plain, captured = observed["resident"]
    record = {"COPY D2H": 1, "EVENT record": 1, "SYNC event": 1}
    for step in plain["steps"]:
        launches = step.pop("KERNEL") + step.pop("CUBLAS")
        assert launches <= LAUNCHES_OF_A_RESIDENT_STEP
        assert step == record
    for step in captured["steps"]:
        assert step == {"GRAPH launch": 1, **record}


def test_admission_to_the_device_takes_few_calls_and_one_copy_for_each_turn(
    observed: dict[str, Any],
) -> None:
    plain, captured = (found["admission"] for found in observed["resident"])
    others = {"COPY H2D": 1, "EVENT record": 1, "SYNC event": 1}
    assert captured == {"GRAPH launch": 1, **others}
    # Keys and values that need no padding are copied.
    assert plain.pop("COPY D2D", 0) == (0 if observed["recurrent"] else 4)
    assert plain.pop("KERNEL") + plain.pop("CUBLAS") <= LAUNCHES_OF_AN_ADMISSION
    assert plain == others
    for found in observed["resident"]:
        assert [step.get("COPY H2D", 0) for step in found["joined"]] == [1, 1, 0, 0]


def test_1000_resident_steps_with_arrivals_and_departures_allocate_nothing(
    observed: dict[str, Any],
) -> None:
    for found in observed["resident"]:
        assert found["many"]["COPY D2H"] == 1000
        assert not {"MALLOC", "FREE", "GRAPH instantiate"} & found["many"].keys()


def test_capture_of_a_resident_step_has_kernels_only(observed: dict[str, Any]) -> None:
    inside = {name for name in observed["resident"][1]["capture"] if "[capture]" in name}
    assert inside == {"[capture] KERNEL", "[capture] CUBLAS"}


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ({"STUB_GPUS": "2"}, "loading general-de-en in fp16 on cuda:0, cuda:1"),
        ({"DRAGOMAN_GPUS": "3"}, "GPU 3 cannot be used; this process can use 0"),
        ({"STUB_GPUS": "0"}, "there is no NVIDIA GPU that this process may see"),
        ({"STUB_DRIVER": "0"}, "there is no NVIDIA driver"),
        (
            {"STUB_DRIVER": "12040"},
            "the NVIDIA driver is too old: it runs CUDA 12.4; onnxruntime needs CUDA 13, "
            "driver 580 or later",
        ),
        ({"STUB_CAPABILITY": "70"}, "(compute capability 7.0); it has code for 7.5, 8.0, "),
        ({"STUB_BLOCK": "20000000"}, "GPU 0 has too little memory for general-de-en: "),
        ({"STUB_BLOCK": "1000000"}, "needs more memory than GPU 0 has free"),
        ({}, "reproduce"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_documented_line_is_logged_on_start(host: dict[str, str], line: str) -> None:
    # With auto, a machine without the driver's files does not log why it has no GPU.
    printed = run("tests.runtime.cuda_stubs.start", "bundles", DRAGOMAN_DEVICE="cuda", **host)
    assert line in printed
    assert line in (ROOT / "docs/operations.md").read_text(encoding="utf-8")
