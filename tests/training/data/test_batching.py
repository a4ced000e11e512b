from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from models.bundle.manifest import SpecialIds
from models.bundle.tokenizer import SPECIAL_IDS
from training.data.batching import (
    Batch,
    BatchLoader,
    collate,
    in_batches,
    in_buckets,
)
from training.data.portions import Amount, Portion, PortionLoader
from training.data.shards import Shards

BUDGET = 60
PAIRS = 120


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """Pair i has i + 10 as its first source token, so that batches identify their pairs."""
    rng = np.random.default_rng(1)
    pairs = [
        ((i + 10, *[4] * int(rng.integers(0, 12))), tuple([5] * int(rng.integers(1, 14))))
        for i in range(PAIRS)
    ]
    return Shards.write(tmp_path, pairs)


def loader(shards: Shards, seed: int = 1) -> PortionLoader:
    return PortionLoader(BatchLoader(shards, SPECIAL_IDS, BUDGET, seed), accumulate=1)


def next_batch(batches: PortionLoader) -> Batch:
    (batch,) = batches.next().batches
    return batch


def epoch(batches: PortionLoader) -> list[Batch]:
    number = batches.cursor.epoch
    found = []
    while batches.cursor.epoch == number:
        found.append(next_batch(batches))
    return found


def members(batch: Batch) -> list[int]:
    return [int(first) - 10 for first in batch.source_BS[:, 0]]


@given(
    lengths=st.lists(st.integers(0, 40), max_size=60),
    budget=st.integers(1, 100),
    rng=st.randoms(use_true_random=False),
)
def test_batches_cover_all_pairs_once_within_the_budget(
    lengths: list[int], budget: int, rng: random.Random
) -> None:
    order = list(range(100, 100 + len(lengths)))
    rng.shuffle(order)
    shuffled = np.array([lengths[i - 100] for i in order], np.int64)
    batches = in_batches(np.array(order, np.int64), shuffled, budget)
    assert sorted(itertools.chain(*batches)) == list(range(100, 100 + len(lengths)))
    sizes = [[lengths[i - 100] + 1 for i in batch] for batch in batches]
    assert all(len(batch) == 1 or max(batch) * len(batch) <= budget for batch in sizes)
    for shorter, longer in itertools.pairwise(sizes):
        assert max(shorter) <= min(longer)
        # No batch could hold another row.
        assert longer[0] * (len(shorter) + 1) > budget


@given(
    lengths=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=80),
    budget=st.integers(1, 200),
    multiple=st.integers(2, 9),
)
def test_buckets_cover_all_pairs_once_with_rows_fixed_by_length(
    lengths: list[tuple[int, int]], budget: int, multiple: int
) -> None:
    source, target = np.array(lengths, np.int64).reshape(-1, 2).T
    batches = in_buckets(np.arange(len(lengths)), source, target, budget, multiple)
    assert sorted(itertools.chain(*(b.indices for b in batches))) == list(range(len(lengths)))
    widths = [-(-(max(both) + 1) // multiple) * multiple for both in lengths]
    for batch in batches:
        assert batch.rows in {max(1, budget // width) for width in widths}
        assert batch.rows == 1 or batch.rows * max(widths[i] for i in batch.indices) <= budget
    # Only the last batch has unused rows.
    assert all(batch.rows == len(batch.indices) for batch in batches[:-1])
    assert all(batch.rows >= len(batch.indices) for batch in batches)


def test_rounded_up_batches_hold_the_same_sentences(shards: Shards) -> None:
    indices = np.array([3, 50, 7, 110])
    plain = collate(shards, indices, SPECIAL_IDS)
    rounded = collate(shards, indices, SPECIAL_IDS, rows=6, length_multiple=8)
    for name in ("source_BS", "input_BT", "output_BT"):
        one, other = getattr(plain, name), getattr(rounded, name)
        assert other.shape == (6, -(-one.size(1) // 8) * 8)
        assert torch.equal(other[:4, : one.size(1)], one)
        assert not other[:4, one.size(1) :].any()
    # Unused rows predict nothing, and have a token to attend to.
    assert rounded.num_target_tokens == plain.num_target_tokens
    assert rounded.source_BS[4:, 0].tolist() == [SPECIAL_IDS.eos] * 2
    assert rounded.input_BT[4:, 0].tolist() == [SPECIAL_IDS.bos] * 2
    real = rounded.targets_N != 0
    flat = rounded.output_BT.flatten()
    assert torch.equal(flat[rounded.positions_N[real]], rounded.targets_N[real])
    assert torch.equal(rounded.targets_N[real], plain.output_BT[plain.output_BT != 0])


@pytest.mark.parametrize("number", range(5))
def test_collate_equals_padding_row_by_row(shards: Shards, number: int) -> None:
    rng = np.random.default_rng(number)
    indices = rng.integers(0, PAIRS, 9)
    batch = collate(shards, indices, SPECIAL_IDS)
    bos, eos = [SPECIAL_IDS.bos], [SPECIAL_IDS.eos]
    expected = {
        "source_BS": [np.concatenate((shards.source[i], eos)) for i in indices],
        "input_BT": [np.concatenate((bos, shards.target[i])) for i in indices],
        "output_BT": [np.concatenate((shards.target[i], eos)) for i in indices],
    }
    for name, rows in expected.items():
        tensors = [torch.from_numpy(row) for row in rows]
        assert torch.equal(getattr(batch, name), pad_sequence(tensors, batch_first=True))


def test_epochs_have_every_pair_once_in_another_order_of_other_batches(shards: Shards) -> None:
    def epochs(seed: int) -> list[list[list[int]]]:
        batches = loader(shards, seed)
        return [[members(batch) for batch in epoch(batches)] for _ in range(2)]

    first, second = epochs(1)
    for each in (first, second):
        assert sorted(itertools.chain(*each)) == list(range(PAIRS))
        longest = [
            max(max(shards.source.lengths[i], shards.target.lengths[i]) for i in b) for b in each
        ]
        assert longest != sorted(longest)
    assert set(map(frozenset, first)) != set(map(frozenset, second))
    assert epochs(1) == [first, second] != epochs(2)


@pytest.mark.parametrize("multiple", [1, 4])
def test_a_large_corpus_is_planned_in_blocks_which_have_every_pair_once(
    shards: Shards, monkeypatch: pytest.MonkeyPatch, multiple: int
) -> None:
    whole = [members(batch) for batch in epoch(loader(shards))]
    monkeypatch.setattr("training.data.batching.BLOCK", 50)
    monkeypatch.setattr("training.data.batching.CHUNK", 7)
    batches = portions(shards, 1, 0, 1, multiple)
    epochs, cursors = [], []
    for _ in range(2):
        number, found = batches.cursor.epoch, []
        while batches.cursor.epoch == number:
            cursors.append(batches.cursor)
            found.append(sentences(batches.next()))
        assert sorted(itertools.chain(*found)) == list(range(PAIRS))
        epochs.append(found)
    assert epochs[0] != epochs[1] and whole not in epochs
    assert {cursor.block for cursor in cursors} == {0, 1, 2}
    for cursor, expected in zip(cursors, itertools.chain(*epochs), strict=True):
        batches.cursor = cursor
        assert sentences(batches.next()) == expected


def test_padding_has_id_0(shards: Shards) -> None:
    with pytest.raises(ValueError, match="id 0"):
        BatchLoader(shards, SpecialIds(pad=3, unk=1, bos=2, eos=0), BUDGET, seed=1)


def test_rounding_up_stops_at_the_networks_maximum_length(tmp_path: Path) -> None:
    shards = Shards.write(tmp_path / "train", [(range(4, 13), [4, 5]), ([4], range(4, 14))])
    batches = BatchLoader(shards, SPECIAL_IDS, 100, seed=1, length_multiple=8, longest=11)
    batch = next_batch(PortionLoader(batches, accumulate=1))
    assert batch.source_BS.shape == batch.input_BT.shape == (6, 11)
    assert batch.num_target_tokens == 3 + 11


def portions(
    shards: Shards, accumulate: int, rank: int, world: int, multiple: int = 1
) -> PortionLoader:
    batches = BatchLoader(shards, SPECIAL_IDS, 50, seed=1, length_multiple=multiple)
    return PortionLoader(batches, accumulate, rank, world)


def sentences(portion: Portion) -> list[int]:
    # Unused rows begin with eos.
    return [i for batch in portion.batches for i in members(batch) if i >= 0]


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
        assert sorted(i for part in apart for i in sentences(part)) == sorted(sentences(together))
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
    assert sentences(portion) == []
    assert batch.num_target_tokens == 0
    assert batch.source_BS.tolist() == [[SPECIAL_IDS.eos]]
    assert batch.input_BT.tolist() == [[SPECIAL_IDS.bos]]


def test_amount_excludes_padding(tmp_path: Path) -> None:
    shards = Shards.write(tmp_path, [((7, 8, 9), (5,)), ((6,), (4, 5)), ((6,), (4,))])
    amount = Amount.of(shards, np.array([0, 1]))
    assert amount == Amount(4 + 2, 2 + 3, 16 + 4, 4 + 9, 8 + 6)
    assert amount + amount == Amount(12, 10, 40, 26, 28)


def test_end_of_a_portion_is_the_begin_of_the_next(shards: Shards) -> None:
    loader, again = (portions(shards, 3, 0, 1) for _ in range(2))
    ends = loader.cursor
    for _ in range(20):
        portion = loader.next()
        assert portion.begin == ends
        ends = portion.end
    again.cursor = ends
    assert sentences(again.next()) == sentences(loader.next())
