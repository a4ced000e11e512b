from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.shards import Shards, ShardWriter

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)


@given(pairs=st.lists(st.tuples(ids, ids), max_size=8))
def test_written_shards_read_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    directory = tmp_path_factory.mktemp("shards") / "train"
    Shards.write(directory, pairs)
    shards = Shards.open(directory)
    assert len(shards) == len(pairs)
    for i, (source, target) in enumerate(pairs):
        assert tuple(shards.source[i].tolist()) == source
        assert tuple(shards.target[i].tolist()) == target
    assert shards.source.lengths.tolist() == [len(source) for source, _ in pairs]


@given(parts=st.lists(st.lists(st.tuples(ids, ids), max_size=4), max_size=4))
def test_shards_appended_in_parts_equal_those_written_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[tuple[int, ...], tuple[int, ...]]]],
) -> None:
    directory = tmp_path_factory.mktemp("shards")
    with ShardWriter(directory / "parts") as writer:
        for part in parts:
            writer.append(part)
    whole = Shards.write(directory / "whole", [pair for part in parts for pair in part])
    assert writer.pairs == len(whole)
    assert writer.tokens == (whole.source.offsets[-1], whole.target.offsets[-1])
    for path in (directory / "whole").iterdir():
        assert (directory / "parts" / path.name).read_bytes() == path.read_bytes()


def test_tokens_are_memory_mapped(tmp_path: Path) -> None:
    shards = Shards.write(tmp_path, [((1, 2), (3,))])
    assert isinstance(shards.source.tokens, np.memmap)
    assert not shards.source.tokens.flags.writeable


def test_missing_shards_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run `python -m training prepare RECIPE` first"):
        Shards.open(tmp_path / "train")


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    Shards.write(tmp_path, [((1, 2), (3, 4)), ((5,), (6,))])
    path = tmp_path / "target.tokens"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=f"{path} holds 2 tokens where 3 were written"):
        Shards.open(tmp_path)
