from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_measures
from benchmarks.gpu_measures import Measured
from models.bundle.bundle import Bundle
from service.runtime.sessions import DeviceUnavailable, available_device
from tests.runtime.test_cuda_stubs import NEEDS_STUBS, ROOT, environment
from tests.support.networks import CONFIG, random_network, write_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path: Path = tmp_path_factory.mktemp("bundles") / "random"
    return write_bundle(random_network(), path, ("fp16", "fp32"), beam=gpu_measures.BEAM_SIZE)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "FIXED_TOKENS": 12,
        "PARITY_SENTENCES": 16,
        "RUNS": 1,
        "_COPY_BYTES": 1 << 20,
    }.items():
        monkeypatch.setattr(gpu_measures, name, value)


def lines(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def test_stages_of_a_cpu_record_every_result_when_it_is_known(
    bundle: Bundle, tmp_path: Path
) -> None:
    record = tmp_path / "record.jsonl"
    for name in ("parity", "speed", "arrivals"):
        stage, _ = gpu.STAGES[name]
        stage(Measured(name, record, bundle.path, tmp_path, "cpu", (2,)))
    found = lines(record)
    kinds = ["difference", "same", "copy", "step", "batch", "arriving"]
    assert [line["kind"] for line in found] == kinds
    assert found[0]["log_prob"] < 0.1
    assert (found[1]["same"], found[1]["repeated"]) == (found[1]["sentences"], True)
    assert found[3]["device_milliseconds"] > 0
    assert all(line["tokens_per_second"] > 0 for line in found[4:])


def test_stage_that_fails_or_takes_too_long_is_recorded_and_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(command: list[str], timeout: int, check: bool) -> subprocess.CompletedProcess[str]:
        if command[-1] == "usable":
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 6 if command[-1] == "parity" else 0)

    monkeypatch.setattr(subprocess, "run", run)
    record = tmp_path / "record.jsonl"
    stages = ["usable", "parity", "ramp"]
    assert gpu.main(["--record", str(record), "--stages", *stages]) == 1
    found = lines(record)
    assert [(line["stage"], line["kind"]) for line in found] == [
        ("usable", "failed"),
        ("parity", "failed"),
        ("ramp", "done"),
    ]


@pytest.mark.slow
@NEEDS_STUBS
def test_every_stage_runs_on_the_stubs(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    options = ["--bundle", "bundles/general-de-en", "--sentences", "1", "8"]
    options += ["--together", "3"]
    subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *options, "--record", str(record)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=900,
        check=False,
    )
    found = lines(record)
    ended = {line["stage"]: line["kind"] for line in found if line["kind"] in ("done", "failed")}
    assert list(ended) == list(gpu.STAGES)
    # The stubs reproduce no example, and PyTorch sees no GPU on them.
    assert {stage for stage, kind in ended.items() if kind == "failed"} == {"usable", "profile"}
    (together,) = [line for line in found if line["kind"] == "outcomes"]
    assert set(together["sentences"]) == set(together["attention"]) == {"ok"}
    memory = [line for line in found if line["kind"] == "memory"]
    for line in memory:
        # Loading may leave room in a block of the arena, which the largest batch then uses. Of the
        # measurements of equal batches, the greatest is nearest to what such a batch needs.
        equal = [each for each in memory if each["resident"] == line["resident"]]
        assert line["ramp_mebibytes"] <= max(each["largest_batch_mebibytes"] for each in equal)


def test_step_bytes_are_those_of_weights_and_caches(bundle: Bundle) -> None:
    width, inner, layers = CONFIG.width, CONFIG.feed_forward, CONFIG.decoder_layers
    weights = layers * (6 * width**2 + 2 * width * inner) + width * CONFIG.target_vocabulary
    entries = gpu_measures.FIXED_TOKENS // 2 + gpu_measures.BEAM_SIZE + gpu_measures.FIXED_TOKENS
    one, two = (
        gpu_measures.step_bytes(bundle.manifest.dimensions, "fp16", sentences)
        for sentences in (1, 2)
    )
    assert two - one == 2 * 2 * layers * width * entries
    assert one - (two - one) == 2 * weights


def test_missing_gpu_error_names_the_device() -> None:
    assert available_device("cpu") == "cpu"
    assert available_device("auto") in {"cpu", "cuda"}
    if available_device("auto") == "cpu":
        with pytest.raises(DeviceUnavailable, match="GPU"):
            available_device("cuda")
