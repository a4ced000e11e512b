"""Memory, faults, captures and several GPUs, with the real ONNX Runtime on the CUDA stubs.

Skipped without ``build/cuda-stubs``, as ``test_cuda_stubs`` is.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.test_cuda_stubs import NEEDS_STUBS, ROOT, environment, run
from tests.support.server import LISTENS

pytestmark = [pytest.mark.slow, NEEDS_STUBS]
BUNDLE = "bundles/general-de-en"
MOST_THREADS = 8
"""Threads of the process for a model on a GPU, on a machine with 96 cores."""
LOST = 3
"""Exit code of a service that has lost its GPUs."""


def scenario(name: str, **host: str) -> dict[str, Any]:
    printed = run("tests.runtime.cuda_stubs.scenarios", name, BUNDLE, **host)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_growing_batches_take_at_most_twice_the_memory_of_the_largest() -> None:
    found = scenario("ramp")
    for kind in ("resident, plain", "resident, captured", "general, plain", "general, captured"):
        megabytes, mallocs = found[f"{kind}, ramp"]
        assert megabytes <= 2 * found[f"{kind}, largest"][0]
        assert mallocs <= 16


@pytest.mark.parametrize(("gpus", "used"), [("0", [0]), ("1", [1]), ("all", [0, 1])])
def test_every_byte_is_on_a_gpu_that_was_chosen(gpus: str, used: list[int]) -> None:
    found = scenario("devices", STUB_GPUS="2", DRAGOMAN_GPUS=gpus)
    assert [number for number, size in enumerate(found["bytes"]) if size] == used
    assert set(found["outcomes"]) == {"ok"}


def test_each_thread_allocates_on_the_gpu_of_its_memory() -> None:
    found = scenario("allocations", STUB_GPUS="2")
    assert found["threads"] == [0, 4 << 20]
    assert found["turns"] == [2 << 20, 6 << 20]


def test_engines_of_a_lost_gpu_end_and_another_gpu_decodes_their_sentences() -> None:
    found = scenario("lost", STUB_GPUS="2")
    assert found["after"] == {"ok": 32}
    assert found["later"] == {"ok": 16}
    assert (found["alive"], found["complete"], found["lost"]) == (True, False, False)
    assert found["devices"] == ["cuda:1"]
    assert found["reload"] == "ok"


def test_idle_gpu_that_is_lost_is_noticed() -> None:
    found = scenario("lost", STUB_GPUS="2", STUB_IDLE="1")
    assert found["noticed"]
    assert found["later"] == {"ok": 16}


def test_full_memory_makes_batches_smaller_and_fails_no_sentence() -> None:
    found = scenario("short")
    assert found["together"] == {"ok": 128}
    assert found["again"] == {"ok": 2}


def test_block_of_more_than_2_gib_is_allocated() -> None:
    assert scenario("large") == {"bytes": 0}


def test_thread_may_allocate_and_close_sessions_while_another_one_captures() -> None:
    assert scenario("isolation") == {"conflicts": 0, "warmed": 1}


def test_no_thread_of_a_service_invalidates_the_capture_of_another() -> None:
    found = scenario("beside_capture")
    assert found.pop("opened") == 1
    assert set(found.values()) == {0}


def test_captures_reloads_and_attention_do_not_disturb_one_another() -> None:
    found = scenario("capture", STUB_SENTENCES="2000")
    assert set(found["outcomes"]) == {"ok"}
    assert set(found["attention"]) == {"ok"}
    assert found["reloads"] > 0
    assert found["conflicts"] == 0


def test_model_on_a_gpu_has_few_threads_of_usual_priority_and_is_captured_at_load() -> None:
    found = scenario("started", DRAGOMAN_WARM_UP_SECONDS="600")
    assert found["threads"] <= MOST_THREADS
    assert found["niceness"] == [0]
    # Events of the resident record sleep (1) and have no times (2).
    assert found["events"] == ["3"]
    assert found["captures"] > 250
    assert found["slots"] == [256, 256]


def test_small_free_memory_gives_fewer_slots() -> None:
    found = scenario("started", STUB_MEMORY="8192", STUB_USED="7500", DRAGOMAN_WARM_UP_SECONDS="0")
    assert all(8 <= slots < 256 for slots in found["slots"])
    assert found["mebibytes"] < 8192 - 7500


@contextmanager
def serving(tmp_path: Path, **host: str) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """A service on the stubs, its address and its log."""
    log = tmp_path / "log"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.cuda_stubs.serve", "--port", "0"],
            cwd=ROOT,
            env=environment(DRAGOMAN_STATE=str(tmp_path / "state"), **host),
            stderr=file,
            text=True,
        )
    try:
        while not (found := LISTENS.search(log.read_text(encoding="utf-8"))):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield process, found[1], log
    finally:
        process.kill()
        process.wait()


def readiness(address: str) -> tuple[int, dict[str, Any]]:
    """Status and body of ``/readyz``, once the models are loaded or refused."""
    while True:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=10) as answer:
                status, body = answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            status, body = error.code, json.load(error)
        if body["reasons"] != ["the models are being loaded"]:
            return status, body
        time.sleep(0.1)


def test_service_that_loses_its_only_gpu_ends_with_a_code(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, address, log):
        assert readiness(address)[0] == 200
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=30) == LOST, log.read_text(encoding="utf-8")
        assert "has lost its devices" in log.read_text(encoding="utf-8")


def test_service_that_loses_one_of_two_gpus_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, STUB_GPUS="2") as (process, address, log):
        assert readiness(address)[0] == 200
        process.send_signal(signal.SIGUSR1)
        while "the engine on cuda:0 ends" not in log.read_text(encoding="utf-8"):
            assert process.poll() is None
            time.sleep(0.05)
        status, body = readiness(address)
        assert status == 200
        assert set(map(tuple, body["devices"].values())) == {("cuda:1",)}


@pytest.mark.parametrize(
    ("host", "status", "line"),
    [
        ({"STUB_DRIVER": "12040"}, 200, "driver 580 or later"),
        ({"STUB_CAPABILITY": "61"}, 200, "no machine code for NVIDIA GeForce GTX 1080"),
        ({"STUB_DRIVER": "0"}, 200, "there is no NVIDIA driver"),
        ({"STUB_DRIVER": "12040", "DRAGOMAN_DEVICE": "cuda"}, 503, "driver 580 or later"),
        ({"STUB_MEMORY": "24576", "STUB_USED": "24560"}, 503, "more memory than GPU 0 has free"),
    ],
    ids=["old driver", "old architecture", "no driver", "GPU required", "full memory"],
)
def test_service_for_gpus_says_why_it_has_none(
    tmp_path: Path, host: dict[str, str], status: int, line: str
) -> None:
    with serving(tmp_path, **host) as (_, address, _):
        found, body = readiness(address)
        while status == 200 and "gpu_missing" not in body:
            found, body = readiness(address)
        assert found == status
        assert line in body.get("gpu_missing", str(body["failed"]))
        with urllib.request.urlopen(f"{address}/health") as answer:
            assert line in json.load(answer).get("gpu_missing", line)


@pytest.mark.parametrize(
    ("host", "devices"),
    [
        ({"STUB_GPUS": "2", "STUB_CAPABILITY": "61,90"}, ["cuda:1"]),
        ({"STUB_ERROR": "802", "STUB_ERROR_SECONDS": "3"}, ["cuda:0"]),
        ({"STUB_USED": "128102"}, ["cuda:0"]),
    ],
    ids=["one of two cards is too old", "driver that becomes ready", "90 % in use"],
)
def test_service_finds_the_gpus_that_it_can_use(
    tmp_path: Path, host: dict[str, str], devices: list[str]
) -> None:
    with serving(tmp_path, **host) as (_, address, _):
        status, body = readiness(address)
        assert status == 200
        assert next(iter(body["devices"].values())) == devices
