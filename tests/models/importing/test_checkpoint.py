from __future__ import annotations

import collections
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from models.importing.checkpoint import Checkpoint
from models.importing.pickled import LEGACY_MAGIC, PickledTensors
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
        for name, shape, named in (
            ("d", (1,), "no tensor d"),
            ("a", (3, 2), r"a has the shape \[2, 3\]"),
            ("int", (2,), "int holds int8"),
            ("fp8", (2,), "fp8 .*float8_e4m3fn"),
            ("nan", (2,), "nan holds what is not a number"),
        ):
            with pytest.raises((NotACheckpoint, UnsupportedCheckpoint), match=named):
                checkpoint.take(name, *shape)


@pytest.mark.parametrize("shape", [[0, 1 << 62], [1 << 62, 4], [1 << 32, 1 << 32]])
def test_absurd_shapes_of_safetensors_are_refused(tmp_path: Path, shape: list[int]) -> None:
    (tmp_path / "config.json").write_text("{}")
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(NotACheckpoint, match=r"a cannot be read|no safetensors file"):
        Checkpoint(tmp_path).take("a", *shape)


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


def test_files_without_tensors_by_name_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, TENSORS, "pickled") / "pytorch_model.bin"
    for content in (file.read_bytes()[:200], pickle.dumps([1, 2])):
        file.write_bytes(content)
        with pytest.raises(NotACheckpoint):
            Checkpoint(tmp_path)
    torch.save([1, 2], file)
    with pytest.raises(NotACheckpoint, match="no tensors by name"):
        Checkpoint(tmp_path)
    with pytest.raises(NotACheckpoint, match="is not a directory"):
        Checkpoint(tmp_path / "absent")


def saved(path: Path, content: object, *, legacy: bool = False) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_numbers_of_every_type_are_read(tmp_path: Path, dtype: torch.dtype, legacy: bool) -> None:
    tensor = torch.tensor([[0.5, -2.0, 3.0], [0.0, 1.0, 7.0]]).to(dtype)
    found = PickledTensors(saved(tmp_path / "a.bin", {"a": tensor}, legacy=legacy)).read("a")
    assert found.astype(np.float64).tolist() == tensor.double().tolist()


@pytest.mark.parametrize("legacy", [False, True])
def test_views_parameters_and_shared_storages_are_read(tmp_path: Path, legacy: bool) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    tensors = collections.OrderedDict(
        whole=whole,
        transposed=whole.T,
        part=whole[1:3, ::2],
        parameter=torch.nn.Parameter(whole[2]),
        scalar=torch.tensor(7.0),
        empty=torch.zeros(0, 3),
    )
    module = torch.nn.Linear(2, 2)
    file = PickledTensors(saved(tmp_path / "a.bin", tensors, legacy=legacy))
    assert file.names() == list(tensors)
    for name, tensor in tensors.items():
        assert file.shape(name) == tuple(tensor.shape)
        np.testing.assert_array_equal(file.read(name), tensor.detach().numpy())
    # A state dict has attributes as well.
    file = PickledTensors(saved(tmp_path / "b.bin", module.state_dict(), legacy=legacy))
    np.testing.assert_array_equal(file.read("bias"), module.bias.detach().numpy())


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"a": Harmful()}, "getattr"),
        ({"a": torch.nn.Linear(1, 1)}, "Linear"),
        ({"a": np.zeros(2)}, "numpy"),
        ({"a": b"bytes"}, "codecs|BINBYTES"),
        ({"a": print}, "print"),
    ],
)
def test_anything_but_tensors_is_refused_by_name_and_not_executed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: object,
    named: str,
    legacy: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "a.bin", content, legacy=legacy)
    with pytest.raises(NotACheckpoint, match=rf"more than tensors \(.*({named})"):
        PickledTensors(path)
    assert not (tmp_path / "harm").exists()


def repacked(path: Path, change: Callable[[dict[str, bytes]], None], **options: Any) -> Path:
    """The archive at ``path`` with changed entries."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def test_archives_that_pytorch_does_not_write_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.bin", {"a": torch.zeros(1 << 16)})
    with pytest.raises(NotACheckpoint, match="is compressed, which PyTorch never does"):
        PickledTensors(repacked(path, lambda _: None, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(NotACheckpoint, match=r"has no data\.pkl"):
        PickledTensors(repacked(path, lambda entries: entries.clear()))


def test_tensors_larger_than_their_storage_are_refused_without_allocation(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.bin", {"a": torch.zeros(3)})

    def cut(entries: dict[str, bytes]) -> None:
        (name,) = (name for name in entries if "/data/" in name)
        entries[name] = entries[name][:8]

    with pytest.raises(NotACheckpoint, match="the numbers of a are not in it"):
        PickledTensors(repacked(path, cut)).read("a")
    path = saved(tmp_path / "b.bin", {"a": torch.zeros(3)})

    def enlarge(entries: dict[str, bytes]) -> None:
        (name,) = (name for name in entries if name.endswith("data.pkl"))
        # BININT1 3, TUPLE1: the shape; a shape of 2³⁰ instead.
        assert entries[name].count(b"K\x03\x85") == 1
        entries[name] = entries[name].replace(b"K\x03\x85", b"J\x00\x00\x00\x40\x85")

    with pytest.raises(NotACheckpoint, match="a is larger than its storage"):
        PickledTensors(repacked(path, enlarge)).read("a")


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\n"
NESTED = b")" + b"\x85" * 10_000
HUGE = b"\x8b\x00\x10\0\0" + b"\1" * 4096


def tensor(shape: bytes, strides: bytes) -> bytes:
    """The pickle of ``{"a": tensor}``, of a storage of one element."""
    storage = STORAGE + b"X\x01\0\0\0aNK\x01tQ"
    arguments = b"(" + storage + b"K\0" + shape + strides + b"t"
    return b"}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


@pytest.mark.parametrize(
    ("pickled", "complaint"),
    [
        (b"}" + NESTED + b"Ns.", "a tuple for a str"),
        (b"}(" + NESTED + b"Nu.", "a tuple for a str"),
        (b"ccollections\nOrderedDict\n" + NESTED + b"N\x86\x85\x85R.", "a tuple for a str"),
        (STORAGE + NESTED + b"NK\x01tQ.", "a tuple for a str"),
        (NESTED + NESTED + b"\x93.", "a tuple for a str"),
        (tensor(HUGE + b"\x85", b"K\0\x85"), "below 0, or 2⁶³ or more"),
        (tensor(b"J\x00\x00\x00\x40\x85", b"K\0\x85"), "a is larger than its storage"),
    ],
)
def test_hostile_pickles_are_refused_without_recursion_or_allocation(
    tmp_path: Path, pickled: bytes, complaint: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.bin", "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        archive.writestr("x/data/a", bytes(4))
    with pytest.raises(NotACheckpoint, match=complaint):
        PickledTensors(tmp_path / "a.bin").read("a")


@pytest.mark.parametrize("legacy", [False, True])
def test_truncated_files_are_refused(tmp_path: Path, legacy: bool) -> None:
    whole = saved(tmp_path / "a.bin", {"a": torch.arange(100.0)}, legacy=legacy).read_bytes()
    for length in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        (tmp_path / "b.bin").write_bytes(whole[:length])
        with pytest.raises(NotACheckpoint):
            PickledTensors(tmp_path / "b.bin").read("a")


OPCODES = [bytes([code]) for code in range(256)]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(OPCODES),
            st.sampled_from(
                [
                    b"ctorch._utils\n_rebuild_tensor_v2\n",
                    b"ccollections\nOrderedDict\n",
                    b"ctorch\nFloatStorage\n",
                    b"cposix\nsystem\n",
                    b"X\x04\x00\x00\x00name",
                    b"r\xff\xff\xff\xff",
                    b"\x8e" + struct.pack("<Q", 1 << 62),
                    b"(",
                    b"tR",
                    b"}",
                    b"u",
                    b"b",
                ]
            ),
            st.binary(max_size=4),
        ),
        max_size=20,
    )
)
def test_arbitrary_pickles_are_refused_and_nothing_else_is_raised(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.bin"
    beginning = b"".join(
        pickle.dumps(each, 2) for each in (LEGACY_MAGIC, 1001, {"little_endian": True})
    )
    path.write_bytes(beginning + b"".join(parts) + b"." + pickle.dumps([], 2))
    try:
        names = PickledTensors(path).names()
    except NotACheckpoint:
        return
    assert names == []
