from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.shards import DamagedShards, Shards, ShardWriter

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(tuple)


@given(parts=st.lists(st.lists(st.tuples(ids, ids), max_size=4), max_size=4))
def test_shards_written_in_parts_or_at_once_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[tuple[int, ...], tuple[int, ...]]]],
) -> None:
    directory = tmp_path_factory.mktemp("shards")
    with ShardWriter(directory / "parts") as writer:
        for part in parts:
            writer.append(part)
    pairs = [pair for part in parts for pair in part]
    Shards.write(directory / "whole", pairs)
    whole = Shards.open(directory / "whole")
    assert writer.pairs == len(whole) == len(pairs)
    assert writer.tokens == (whole.source.offsets[-1], whole.target.offsets[-1])
    for path in (directory / "whole").iterdir():
        assert (directory / "parts" / path.name).read_bytes() == path.read_bytes()
    for i, (source, target) in enumerate(pairs):
        assert tuple(whole.source[i].tolist()) == source
        assert tuple(whole.target[i].tolist()) == target
    assert whole.source.lengths.tolist() == [len(source) for source, _ in pairs]


def test_tokens_are_memory_mapped_and_missing_or_truncated_shards_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="prepare"):
        Shards.open(tmp_path / "train")
    shards = Shards.write(tmp_path, [((1, 2), (3, 4)), ((5,), (6,))])
    assert isinstance(shards.source.tokens, np.memmap)
    assert not shards.source.tokens.flags.writeable
    path = tmp_path / "target.tokens"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DamagedShards, match=str(path)):
        Shards.open(tmp_path)
