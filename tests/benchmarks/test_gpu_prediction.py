from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gpu_prediction as prediction
from tests.support.programs import ROOT

H200 = prediction.GPUS["h200"]


def test_documented_table_is_what_the_program_predicts() -> None:
    table = "\n".join(prediction.table(H200))
    assert table in (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def test_no_step_is_faster_than_its_roofline_or_its_host() -> None:
    for row in prediction.rows(H200):
        assert row.step_milliseconds >= max(row.roofline_milliseconds, row.host_milliseconds)
        alone = row.encode_milliseconds + row.step_milliseconds
        assert row.latency_milliseconds > alone


def test_more_bandwidth_more_sentences_and_capture_are_never_slower() -> None:
    slower = prediction.rows(prediction.GPUS["h100"])
    for one, other in zip(slower, prediction.rows(H200), strict=True):
        assert one.tokens_per_second <= other.tokens_per_second
    for resident in (False, True):
        plain, captured = (
            prediction.arriving(H200, 64, capture=capture, resident=resident)
            for capture in (False, True)
        )
        assert plain <= captured


def test_recorded_batches_are_compared_with_their_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted = prediction.predict(H200, 32, capture=True, resident=False)
    batch = {
        "kind": "batch",
        "capture": True,
        "sentences": 32,
        "step_milliseconds": 2 * predicted.step_milliseconds,
        "tokens_per_second": predicted.tokens_per_second,
    }
    record = tmp_path / "record.jsonl"
    record.write_text(json.dumps({"kind": "start"}) + "\n" + json.dumps(batch), encoding="utf-8")
    assert prediction.main(["--record", str(record)]) == 0
    *_, step, tokens = capsys.readouterr().out.splitlines()
    assert step.endswith("| 2.00 |")
    assert tokens.endswith("| 1.00 |")
