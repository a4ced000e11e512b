from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from training.disk import CannotWrite
from training.loop.event_log import RunLog


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_steps(path: Path, resume_step: int, steps: range, loss: float = 1.0) -> None:
    log = RunLog(path, resume_step)
    for step in steps:
        log.write("train", step, loss=loss)
    log.sync()
    log.close()


def grow_old(directory: Path) -> None:
    """Backdate the files: TensorBoard orders them by the second in their names."""
    (file,) = directory.iterdir()
    file.rename(directory / "events.out.tfevents.0000000001.host")


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(directory))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_every_event_is_at_once_a_line_of_json_with_exact_numbers(tmp_path: Path) -> None:
    with RunLog(tmp_path / "log.jsonl", 0) as log:
        log.write("train", 1, loss=0.1 + 0.2, learning_rate=1e-3)
        assert len(lines(tmp_path / "log.jsonl")) == 1
        log.write("valid", 1, bleu=31.25)
    assert lines(tmp_path / "log.jsonl") == [
        {"event": "train", "step": 1, "loss": 0.1 + 0.2, "learning_rate": 1e-3},
        {"event": "valid", "step": 1, "bleu": 31.25},
    ]


@pytest.mark.parametrize(
    "end", [b'{"event": "train", "st', bytes(300) + b"\n", b"\xff\n", b"[]\n", b"\n"]
)
def test_repeated_steps_are_logged_once_and_damaged_lines_are_removed(
    tmp_path: Path, end: bytes
) -> None:
    path = tmp_path / "log.jsonl"
    write_steps(path, 0, range(1, 8))
    with path.open("ab") as file:
        file.write(end)
    write_steps(path, 4, range(5, 10), loss=2.0)
    assert [(line["step"], line["loss"]) for line in lines(path)] == [
        *((step, 1.0) for step in range(1, 5)),
        *((step, 2.0) for step in range(5, 10)),
    ]


@pytest.mark.parametrize(("written", "resumed_at"), [(7, 4), (3, 0)])
def test_tensorboard_drops_the_steps_after_the_checkpoint(
    tmp_path: Path, written: int, resumed_at: int
) -> None:
    path = tmp_path / "log.jsonl"
    write_steps(path, 0, range(1, written + 1))
    grow_old(tmp_path / "tensorboard")
    write_steps(path, resumed_at, range(resumed_at + 1, resumed_at + 3), loss=2.0)
    assert scalars(tmp_path / "tensorboard", "train/loss") == [
        *((step, 1.0) for step in range(1, resumed_at + 1)),
        (resumed_at + 1, 2.0),
        (resumed_at + 2, 2.0),
    ]


def test_full_disk_raises_and_keeps_written_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    with RunLog(path, 0) as log:
        log.write("train", 1, loss=1.0)
        with Path("/dev/full").open("ab", buffering=0) as full:
            monkeypatch.setattr(log, "_file", full)
            with pytest.raises(CannotWrite, match="is full"):
                log.write("train", 2, loss=1.0)
        monkeypatch.undo()
    assert [line["step"] for line in lines(path)] == [1]
