from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from models.bundle.tokenizer import SPECIAL_IDS
from training.data.batching import BatchLoader
from training.data.portions import Amount, Portion, PortionLoader
from training.data.shards import Shards


def portions(
    shards: Shards, accumulate: int, rank: int, world: int, multiple: int = 1
) -> PortionLoader:
    batches = BatchLoader(shards, SPECIAL_IDS, 50, seed=1, length_multiple=multiple)
    return PortionLoader(batches, accumulate, rank, world)


def members(portion: Portion) -> list[int]:
    firsts = torch.cat([batch.source_BS[:, 0] for batch in portion.batches]).tolist()
    # Unused rows begin with eos.
    return [first - 10 for first in firsts if first >= 10]


@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize(
    ("accumulate", "world"), [(1, 1), (4, 1), (4, 2), (4, 4), (1, 3), (6, 4), (2, 8)]
)
def test_portions_of_all_processes_cover_the_step(
    shards: Shards, accumulate: int, world: int, multiple: int
) -> None:
    whole = portions(shards, accumulate, 0, 1, multiple)
    parts = [portions(shards, accumulate, rank, world, multiple) for rank in range(world)]
    for _ in range(30):
        together = whole.next()
        apart = [part.next() for part in parts]
        assert sorted(i for part in apart for i in members(part)) == sorted(members(together))
        for part in apart:
            for name in ("amount", "begin", "end"):
                assert getattr(part, name) == getattr(together, name)
        tokens = [sum(batch.num_target_tokens for batch in part.batches) for part in apart]
        assert sum(tokens) == together.amount.target_tokens
        # DDP requires the same number of passes in every process.
        assert len({len(part.batches) for part in apart}) == 1


def test_process_without_sentences_gets_an_empty_row(shards: Shards) -> None:
    alone = PortionLoader(BatchLoader(shards, SPECIAL_IDS, 1, seed=1), 1, rank=2, world=3)
    portion = alone.next()
    (batch,) = portion.batches
    assert members(portion) == []
    assert batch.num_target_tokens == 0
    assert batch.source_BS.tolist() == [[SPECIAL_IDS.eos]]
    assert batch.input_BT.tolist() == [[SPECIAL_IDS.bos]]


def test_amount_excludes_padding(tmp_path: Path) -> None:
    shards = Shards.write(tmp_path, [((7, 8, 9), (5,)), ((6,), (4, 5)), ((6,), (4,))])
    amount = Amount.of(shards, np.array([0, 1]))
    assert amount == Amount(4 + 2, 2 + 3, 16 + 4, 4 + 9, 8 + 6)
    assert amount + amount == Amount(12, 10, 40, 26, 28)


def test_end_of_a_portion_is_the_begin_of_the_next(shards: Shards) -> None:
    loader = portions(shards, 3, 0, 1)
    ends = loader.cursor
    for _ in range(20):
        portion = loader.next()
        assert portion.begin == ends
        ends = portion.end
    again = portions(shards, 3, 0, 1)
    again.cursor = ends
    assert members(again.next()) == members(loader.next())
