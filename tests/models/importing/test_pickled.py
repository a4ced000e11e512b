"""Tests of the reader of pickled tensors: both formats of PyTorch, and files made to do harm."""

from __future__ import annotations

import collections
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

from models.importing.pickled import LEGACY_MAGIC, PickledTensors
from models.importing.refusals import NotACheckpoint
from tests.support.checkpoints import Harmful


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
