from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from models.importing.checkpoint import Checkpoint
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from tests.support.checkpoints import Harmful

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b.c": torch.ones(4)}


def write(directory: Path, tensors: dict[str, Tensor], form: str) -> Path:
    """Write one file or two, safetensors or pickled."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text("{}")
    safe, cut = form.startswith("safe"), form.endswith("cut")
    name = "model.safetensors" if safe else "pytorch_model.bin"
    parts = {f"{i}-{name}": {key: value} for i, (key, value) in enumerate(tensors.items())}
    for file, part in (parts if cut else {name: tensors}).items():
        if safe:
            save_file(part, directory / file)
        else:
            torch.save(part, directory / file, _use_new_zipfile_serialization="old" not in form)
    if cut:
        places = {key: file for file, part in parts.items() for key in part}
        (directory / f"{name}.index.json").write_text(json.dumps({"weight_map": places}))
    return directory


@pytest.mark.parametrize("form", ["safe", "safe cut", "pickled", "pickled old", "pickled cut"])
def test_tensors_are_read_by_name_from_every_file_format(tmp_path: Path, form: str) -> None:
    half = {**TENSORS, "half": torch.tensor([0.5], dtype=torch.bfloat16)}
    with Checkpoint(write(tmp_path, half, form)) as checkpoint:
        assert np.array_equal(checkpoint.take("a", 2, 3), TENSORS["a"])
        assert checkpoint.take("half", 1).dtype == np.float32
        assert "b.c" in checkpoint and "d" not in checkpoint
        with pytest.raises(UnsupportedCheckpoint, match=r"no supported network has: b\.c$"):
            checkpoint.check_all_taken()
        checkpoint.leave(["b.c", "d"])
        checkpoint.check_all_taken()


def test_invalid_tensors_are_named(tmp_path: Path) -> None:
    tensors = {
        **TENSORS,
        "int": torch.ones(2, dtype=torch.int8),
        "nan": torch.tensor([1.0, float("nan")]),
        "fp8": torch.ones(2, dtype=torch.float8_e4m3fn),
    }
    with Checkpoint(write(tmp_path, tensors, "safe")) as checkpoint:
        with pytest.raises(NotACheckpoint, match="has no tensor d"):
            checkpoint.take("d", 1)
        with pytest.raises(UnsupportedCheckpoint, match=r"a has the shape \[2, 3\]; .* \[3, 2\]"):
            checkpoint.take("a", 3, 2)
        with pytest.raises(UnsupportedCheckpoint, match=r"int holds int8; quantised"):
            checkpoint.take("int", 2)
        with pytest.raises(NotACheckpoint, match=r"fp8 cannot be read: .*float8_e4m3fn"):
            checkpoint.take("fp8", 2)
        with pytest.raises(NotACheckpoint, match="nan holds what is not a number"):
            checkpoint.take("nan", 2)


@pytest.mark.parametrize("shape", [[0, 1 << 62], [1 << 62, 4], [1 << 32, 1 << 32]])
def test_absurd_shapes_of_safetensors_are_refused(tmp_path: Path, shape: list[int]) -> None:
    (tmp_path / "config.json").write_text("{}")
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(NotACheckpoint, match=r"a cannot be read|no safetensors file"):
        Checkpoint(tmp_path).take("a", *shape)


def test_only_tensors_are_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, TENSORS, "pickled")
    torch.save({"a": Harmful()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(NotACheckpoint, match="could run anything; save the model as safetensors"):
        Checkpoint(tmp_path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda d: (d / "model.safetensors").unlink(), "has neither model.safetensors nor"),
        (lambda d: (d / "config.json").unlink(), "has no config.json"),
        (lambda d: (d / "config.json").write_text("["), "cannot be read as JSON"),
        (lambda d: (d / "config.json").write_text("[]"), "holds no JSON object"),
        (lambda d: (d / "model.safetensors").write_bytes(b"\0" * 20), "is no safetensors file"),
    ],
)
def test_directory_without_checkpoint_is_refused(
    tmp_path: Path, break_it: Any, complaint: str
) -> None:
    break_it(write(tmp_path, TENSORS, "safe"))
    with pytest.raises(NotACheckpoint, match=complaint):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ({"a": "../elsewhere.safetensors"}, "which is not a file beside it"),
        ({"a": 3}, "which is not a file beside it"),
        ({"x": "0-model.safetensors"}, "lacks x, which its index has"),
        ({"a": "7-model.safetensors"}, "has no 7-model.safetensors"),
        ({}, "does not say which file has what"),
    ],
)
def test_inconsistent_index_is_refused(
    tmp_path: Path, index: dict[str, Any], complaint: str
) -> None:
    write(tmp_path, TENSORS, "safe cut")
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}))
    with pytest.raises(NotACheckpoint, match=complaint):
        Checkpoint(tmp_path)


def test_damaged_pickles_are_refused(tmp_path: Path) -> None:
    write(tmp_path, TENSORS, "pickled")
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(NotACheckpoint):
        Checkpoint(tmp_path)
    torch.save([1, 2], file)
    with pytest.raises(NotACheckpoint, match="holds no tensors by name"):
        Checkpoint(tmp_path)
    with pytest.raises(NotACheckpoint, match="is not a directory"):
        Checkpoint(tmp_path / "absent")
