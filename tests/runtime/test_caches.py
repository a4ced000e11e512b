from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions
from service.runtime.backend import CacheUse
from service.runtime.binding import Ancestry, RowStates
from service.runtime.cuda import CudaError
from service.runtime.memory import Budget, CacheFull, HostMemory, HostPool, Memory, Pool
from tests.runtime.simulated_gpu import NO_MEMORY, Runtime, SimulatedGpu

DIMENSIONS = Dimensions(
    encoder_layers=1, decoder_layers=2, width=4, heads=2, feed_forward=4, vocabulary_size=9
)
SLOTS, HEADS, WIDTH, ARRAYS = 3, 2, 2, 4
ENTRY = HEADS * WIDTH * 4
HIDDEN = -1e9


class ShortMemory(HostMemory):
    """Raises ``MemoryError`` after ``blocks`` growths."""

    self_bucket = 4

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.left = blocks

    def resize(self, address: int, old_size: int, size: int) -> int:
        if size > old_size:
            if not self.left:
                raise MemoryError
            self.left -= 1
        return super().resize(address, old_size, size)


class SmallBuckets(HostMemory):
    self_bucket = 4


class GpuWithSmallBuckets(SimulatedGpu):
    self_bucket = 4


@pytest.fixture(params=[SmallBuckets, GpuWithSmallBuckets])
def memory(request: pytest.FixtureRequest) -> Memory:
    return request.param()  # type: ignore[no-any-return]


def make_pool(memory: Memory, budget: int = 1 << 20) -> Pool:
    return memory.pool("self", DIMENSIONS, SLOTS, Budget(budget), np.float32)


def contents(pool: Pool) -> dict[str, NDArray[np.float32]]:
    shape = SLOTS, HEADS, pool.length, WIDTH
    size = int(np.prod(shape)) * 4
    return {
        name: np.frombuffer(ctypes.string_at(address, size), np.float32).reshape(shape)
        for name, address in pool.arrays()
    }


def put(pool: Pool, slot: int, length: int, value: float) -> None:
    """Fill a slot, with zeros behind ``length``. A simulated GPU's memory is the host's."""
    for _, address in pool.arrays():
        size = SLOTS * HEADS * pool.length * WIDTH
        array = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
        array.reshape(SLOTS, HEADS, pool.length, WIDTH)[slot] = 0
        array.reshape(SLOTS, HEADS, pool.length, WIDTH)[slot, :, :length] = value


def test_entries_survive_growing_shrinking_and_moving(memory: Memory) -> None:
    pool = make_pool(memory)
    assert pool.resize(3, 0)
    for slot in range(3):
        put(pool, slot, 3, slot + 1)
    assert pool.resize(9, 3)
    assert pool.length == 12
    assert not pool.resize(10, 3), "twelve entries hold ten"
    assert not pool.resize(8, 3), "unused entries are accepted"
    pool.move(2, 0, 3)
    assert pool.resize(2, 2)
    assert pool.length == 4
    for array in contents(pool).values():
        assert (array[0, :, :3] == 3).all()
        assert (array[1, :, :3] == 2).all()
        assert not array[:2, :, 3:].any()


def test_put_clears_the_entries_behind_a_shorter_sentence() -> None:
    pool = make_pool(SmallBuckets())
    assert isinstance(pool, HostPool)
    pool.resize(4, 0)
    put(pool, 1, 4, float("nan"))
    source = np.full((1, HEADS, 2, WIDTH), 5, np.float32)
    pool.put([source.ctypes.data] * ARRAYS, [1], 2)
    for array in contents(pool).values():
        assert array[1, 0, :, 0].tolist() == [5, 5, 0, 0]


def test_clear_fills_slots_with_zeros_and_no_other(memory: Memory) -> None:
    pool = make_pool(memory)
    pool.resize(4, 0)
    for slot in range(SLOTS):
        put(pool, slot, 4, float("nan") if slot else 7)
    pool.clear(range(1, SLOTS))
    for array in contents(pool).values():
        assert (array[0] == 7).all()
        assert not array[1:].any()


@pytest.mark.parametrize("budget_arrays", [1, 7])
def test_a_pool_over_budget_raises_cache_full_and_is_unchanged(budget_arrays: int) -> None:
    pool = make_pool(SmallBuckets(), budget=budget_arrays * SLOTS * 4 * ENTRY)
    if budget_arrays == 1:
        with pytest.raises(CacheFull, match="are allowed"):
            pool.resize(1, 0)
        assert pool.length == 0
        return
    pool.resize(1, 0)
    put(pool, 0, 1, 7)
    with pytest.raises(CacheFull):
        pool.resize(5, 1)
    assert pool.length == 4
    assert all(array[0, 0, 0, 0] == 7 for array in contents(pool).values())
    assert pool.resize(4, 0) is False
    pool.release()


def test_a_short_budget_has_room_for_the_slots_that_are_wanted() -> None:
    budget = Budget(ARRAYS * 2 * 8 * ENTRY)
    pool = SmallBuckets().pool("self", DIMENSIONS, SLOTS, budget, np.float32)
    pool.resize(4, 0)
    for slot in range(SLOTS):
        put(pool, slot, 4, slot + 1)
    assert pool.resize(8, 2, 2)

    def first_entries() -> list[float]:
        return [
            np.frombuffer(ctypes.string_at(pool.place(name, slot), 4), np.float32)[0]
            for name, _ in pool.arrays()
            for slot in (0, 1)
        ]

    assert first_entries() == [1, 2] * ARRAYS
    assert not pool.resize(8, 2, 2)
    with pytest.raises(CacheFull):
        pool.resize(8, 2, 3)
    pool.clear(range(1, SLOTS))
    assert first_entries() == [1, 0] * ARRAYS
    pool.trim(1)
    assert budget.use.taken == ARRAYS * 8 * ENTRY
    assert pool.resize(8, 1, 2)
    assert first_entries() == [1, 0] * ARRAYS
    assert pool.resize(2, 2, 2)
    assert not pool.resize(2, 2, SLOTS), "shorter entries of all slots fit"
    assert first_entries() == [1, 0] * ARRAYS


def test_budget_use_follows_growing_and_shrinking() -> None:
    budget = Budget(1 << 20)
    pool = SmallBuckets().pool("self", DIMENSIONS, SLOTS, budget, np.float32)
    assert budget.use == CacheUse(0, 1 << 20)
    pool.resize(400, 0)
    assert budget.use == CacheUse(ARRAYS * SLOTS * 400 * ENTRY, 1 << 20)
    pool.resize(4, 0)
    assert budget.use == CacheUse(ARRAYS * SLOTS * 4 * ENTRY, 1 << 20)
    pool.release()


def test_a_pool_out_of_memory_while_growing_is_unchanged() -> None:
    pool = make_pool(ShortMemory(ARRAYS + 2))
    pool.resize(1, 0)
    put(pool, 2, 1, 7)
    with pytest.raises(MemoryError):
        pool.resize(5, 3)
    assert pool.length == 4
    assert all(array[2, 0, 0, 0] == 7 for array in contents(pool).values())


@pytest.mark.parametrize("first", [0, 1], ids=["first allocation", "second allocation"])
@pytest.mark.parametrize(("code", "error"), [(NO_MEMORY, MemoryError), (700, CudaError)])
def test_gpu_pool_that_cannot_grow_is_unchanged(
    code: int, error: type[Exception], first: int
) -> None:
    runtime = Runtime()
    budget = Budget(4 * 1024 * ARRAYS)
    pool = GpuWithSmallBuckets(runtime).pool("self", DIMENSIONS, SLOTS, budget, np.float32)
    pool.resize(1, 0)
    put(pool, 2, 1, 7)
    reserved, blocks = budget.use.taken, len(runtime.blocks)
    runtime.failing, runtime.succeeding = code, first
    with pytest.raises(error):
        pool.resize(40, 3)
    # Otherwise ONNX Runtime would fail after its next kernel.
    assert runtime.calls["clear the error"] == 1
    assert (budget.use.taken, len(runtime.blocks)) == (reserved, blocks)
    assert all(array[2, 0, 0, 0] == 7 for array in contents(pool).values())
    runtime.failing = 0
    assert pool.resize(40, 3)
    assert all(array[2, 0, 0, 0] == 7 for array in contents(pool).values())
    pool.release()
    assert not runtime.blocks


def test_gpu_pool_is_reserved_once_and_moves_a_slot_with_one_call() -> None:
    runtime = Runtime()
    pool = make_pool(SimulatedGpu(runtime))
    pool.resize(1, 0)
    allocated = runtime.calls["allocate"]
    for needed in (70, 130, 1, 250):
        assert pool.resize(needed, 2)
    assert runtime.calls["allocate"] == allocated
    copies = runtime.calls["copy"]
    pool.move(2, 0, 3)
    assert runtime.calls["copy"] == copies + 1


@given(st.data())
def test_every_row_sees_only_the_entries_of_its_ancestors(data: st.DataObject) -> None:
    """Entries are labelled by step, sentence and row; rows fork, die and move at random."""
    slots, rows = 3, 4
    ancestry = Ancestry(slots, rows)
    written: list[dict[int, tuple[int, int, int]]] = [{} for _ in range(slots)]
    prefixes: list[list[tuple[tuple[int, int, int], ...]]] = [[()] * rows for _ in range(slots)]
    in_use = data.draw(st.integers(1, slots))
    for step in range(data.draw(st.integers(1, 40))):
        if in_use > 1 and data.draw(st.integers(0, 9)) == 0:
            in_use -= 1
            slot = data.draw(st.integers(0, in_use))
            if slot != in_use:
                ancestry.move(in_use, slot)
                written[slot], prefixes[slot] = written[in_use], prefixes[in_use]
        width = data.draw(st.integers(1, rows))
        alive = [[r for r, p in enumerate(prefixes[s]) if len(p) == step] for s in range(in_use)]
        parents = np.array(
            [
                [data.draw(st.sampled_from(alive[s] + ([-1] if k else []))) for k in range(width)]
                for s in range(in_use)
            ],
            np.int32,
        )
        if data.draw(st.booleans()):
            # The step failed, and is tried again.
            ancestry.append(parents)
        entries = ancestry.append(parents)
        bias = np.full((in_use, width, 192), 1, np.float32)
        ancestry.write_bias(bias, HIDDEN)
        for s in range(in_use):
            grown: list[tuple[tuple[int, int, int], ...]] = [(((-1, -1, -1),) * 99)] * rows
            assert len(set(entries[s].tolist())) == width, "two rows write at one entry"
            for k in range(width):
                written[s][int(entries[s, k])] = (step, s, k)
                if parents[s, k] >= 0:
                    grown[k] = (*prefixes[s][parents[s, k]], (step, s, k))
            for k in range(width):
                if parents[s, k] >= 0:
                    seen = [written[s][e] for e in np.flatnonzero(bias[s, k] == 0).tolist()]
                    assert sorted(seen) == sorted(grown[k])
            prefixes[s] = grown
        ancestry.commit()
        assert ancestry.highest(slice(in_use)) <= bias.shape[2]


def test_a_long_sentence_gets_one_entry_per_token() -> None:
    ancestry = Ancestry(1, 1)
    for number in range(200):
        assert ancestry.append(np.zeros((1, 1), np.int32)) == [[number]]
        ancestry.commit()
    assert ancestry.highest(slice(1)) == 200


@given(st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=8))
def test_a_row_reads_the_state_that_its_parent_wrote_and_no_entry_of_the_step(
    steps: list[list[int]],
) -> None:
    states, written = RowStates(slots=3, rows_per_slot=4), list(range(4))
    arrays = {name: np.zeros((3, 4), np.int64) for name in ("state_reads", "state_writes")}
    for parents in steps:
        # The step failed, and is tried again.
        states.append(np.array([parents] * 3, np.int32))
        entries_BK = states.append(np.array([parents] * 3, np.int32))
        states.write(arrays, entries_BK, HIDDEN)
        for slot in range(3):
            reads, writes = (arrays[name][slot] - 8 * slot for name in arrays)
            live = [row for row in range(4) if parents[row] >= 0]
            assert [reads[row] for row in live] == [written[parents[row]] for row in live]
            assert len({*writes.tolist()}) == 4 and not {*writes.tolist()} & {*reads.tolist()}
            assert {*writes.tolist()} <= set(range(8))
        written = arrays["state_writes"][0].tolist()
        states.commit()


def test_pool_of_states_has_a_vector_for_each_entry_and_is_budgeted() -> None:
    budget, recurrent = Budget(1 << 20), DIMENSIONS.model_copy(update={"decoder": "ssru"})
    pool = HostMemory().pool("self", recurrent, SLOTS, budget, np.float32)
    assert pool.resize(6, 0) and pool.length == 6
    assert dict(pool.arrays()).keys() == {"state.0", "state.1"}
    assert pool.shape(2) == (12, 4)
    assert budget.use.taken == 2 * SLOTS * 6 * 4 * 4
    pool.release()
