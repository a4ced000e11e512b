from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gpu
from models.bundle.bundle import Bundle
from service.runtime.sessions import DeviceUnavailable, available_device
from tests.support.networks import CONFIG, random_network, write_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path: Path = tmp_path_factory.mktemp("bundles") / "random"
    return write_bundle(random_network(), path, ("fp16", "fp32"), beam=gpu.BEAM_SIZE)


def test_half_precision_translates_nearly_as_single_precision_does(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "FIXED_TOKENS", 12)
    monkeypatch.setattr(gpu, "PARITY_SENTENCES", 16)
    exact = gpu.exact_translations(bundle)
    assert gpu.parity(bundle, gpu.load(bundle, "fp32", 16), exact) == 16
    assert gpu.parity(bundle, gpu.load(bundle, "fp16", 16), exact) >= 12


def test_every_result_is_recorded_when_it_is_known(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "FIXED_TOKENS", 12)
    monkeypatch.setattr(gpu, "PARITY_SENTENCES", 4)
    monkeypatch.setattr(gpu, "_STEPS", 4)
    monkeypatch.setattr(gpu, "RUNS", 1)
    monkeypatch.setattr(gpu, "copy_bandwidth", lambda _: 1e9)
    monkeypatch.setattr(gpu, "torch_step_seconds", lambda *_: 1e-3)
    record = tmp_path / "record.jsonl"
    options = ["--device", "cpu", "--precision", "fp32", "--sentences", "1", "2"]
    assert gpu.main([*options, "--bundle", str(bundle.path), "--record", str(record)]) == 0
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    rows = ["parity", "batch", "batch", "arriving"]
    assert [line["kind"] for line in lines] == ["start", "copy", "difference", *rows, *rows]
    assert [line.get("resident", False) for line in lines] == [False] * 7 + [True] * 4
    assert lines[2]["log_prob"] < 1e-4
    assert lines[3]["same"] == 4
    for line in lines[4:6]:
        assert line["launches"] == 0
        assert line["host_milliseconds"] == pytest.approx(line["step_milliseconds"], rel=1e-3)
    assert lines[6]["tokens_per_second"] > 0
    assert lines[7]["same"] == 4
    assert all(line["tokens_per_second"] > 0 for line in lines[8:])


def test_step_bytes_are_those_of_weights_and_caches(bundle: Bundle) -> None:
    width, inner, layers = CONFIG.width, CONFIG.feed_forward, CONFIG.decoder_layers
    weights = layers * (6 * width**2 + 2 * width * inner) + width * CONFIG.target_vocabulary
    entries = gpu.FIXED_TOKENS // 2 + gpu.BEAM_SIZE + gpu.FIXED_TOKENS
    one, two = (
        gpu.step_bytes(bundle.manifest.dimensions, "fp16", sentences) for sentences in (1, 2)
    )
    assert two - one == 2 * 2 * layers * width * entries
    assert one - (two - one) == 2 * weights


def test_missing_gpu_error_names_the_device() -> None:
    assert available_device("cpu") == "cpu"
    assert available_device("auto") in {"cpu", "cuda"}
    if available_device("auto") == "cpu":
        with pytest.raises(DeviceUnavailable, match="GPU"):
            available_device("cuda")
