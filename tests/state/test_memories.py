from __future__ import annotations

import pytest

from service.state.database import Database
from service.state.errors import InvalidMemory, MemoryNotFound, TooManyMemories
from service.state.memories import UNITS_IN_A_PART, MemoryStore
from service.state.tmx import MemoryLimits, ReadMemory

READ = ReadMemory("de", [("a", {"en": "b"})])


@pytest.fixture
def store(database: Database) -> MemoryStore:
    return MemoryStore(database, MemoryLimits(memories=1, jobs=3))


async def test_imported_memory_is_read_in_parts_by_its_owner_only(store: MemoryStore) -> None:
    units = [(f"Satz {n}", {"en": f"sentence {n}"}) for n in range(UNITS_IN_A_PART + 1)]
    job = await store.open_job("ann", "import", "Handbuch")
    assert await store.finish_import(job, ReadMemory("de", list(units), skipped=2))
    (memory,) = await store.all("ann")
    assert (memory.targets, memory.unit_count) == (("en",), len(units))
    parts = [await store.part("ann", memory.id, number) for number in range(3)]
    assert [unit for part in parts for unit in part] == units and not parts[2]
    done = await store.job("ann", job.id)
    assert (done.memory, done.skipped) == (memory.id, 2)
    assert await store.job_with(job.secret, "import") == done
    with pytest.raises(MemoryNotFound):
        await store.job_with(job.secret, "export")
    with pytest.raises(MemoryNotFound):
        await store.job_with("\0", "import")
    for attempt in (store.get, store.delete, store.job):
        with pytest.raises(MemoryNotFound):
            await attempt(None, memory.id)
    await store.delete("ann", memory.id)
    assert await store.all("ann") == ()


async def test_job_ends_once(store: MemoryStore) -> None:
    job = await store.open_job(None, "import", "a")
    assert [await store.finish_import(job, READ) for _ in range(2)] == [True, False]
    await store.fail(job, "not well formed")
    assert (await store.job(None, job.id)).error is None
    assert len(await store.all(None)) == 1


async def test_name_with_nul_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidMemory, match=r"has the character U\+0000; leave it out"):
        await store.open_job(None, "import", "a\0")


async def test_memories_and_jobs_above_a_limit_are_refused(store: MemoryStore) -> None:
    jobs = [await store.open_job(None, "import", "a") for _ in range(2)]
    await store.fail(jobs[0], "not well formed")
    assert (await store.job(None, jobs[0].id)).error == "not well formed"
    await store.finish_import(jobs[1], READ)
    with pytest.raises(TooManyMemories):
        await store.open_job(None, "import", "a")
    await store.open_job(None, "export", "a")
    with pytest.raises(TooManyMemories):
        await store.open_job(None, "export", "a")
