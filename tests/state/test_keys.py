from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from service.state.database import FILE_NAME, Database
from service.state.errors import KeyRefused, StateFailed
from service.state.keys import KeyStore
from tests.state.clocks import Clock, run
from tests.support.raising import raiser

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=50)


async def test_a_random_key_is_found_with_its_limits(database: Database) -> None:
    store = KeyStore(database)
    key = await store.add("weblate", requests_per_minute=60, characters_per_month=0)
    other = await store.add("mastodon")
    assert key.startswith("drg_")
    assert key != other
    assert len(key) > 40
    found = await store.find(key)
    assert found is not None
    assert found.name == "weblate"
    assert (found.requests_per_minute, found.characters_per_month) == (60, 0)
    assert [known.name for known in await store.all()] == ["mastodon", "weblate"]


@given(st.dictionaries(NAMES, KEYS, max_size=5), st.data())
def test_removed_keys_stop_working_and_remaining_keys_work(
    keys: dict[str, str], data: st.DataObject
) -> None:
    keys = {name: key for key, name in {key: name for name, key in keys.items()}.items()}
    removed = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()

    async def check() -> None:
        async with Database(None) as database:
            store = KeyStore(database)
            for name, key in keys.items():
                await store.add(name, key)
            for name in removed:
                await store.remove(name)
            for name, key in keys.items():
                found = await store.find(key)
                assert (found.name if found else None) == (None if name in removed else name)
                assert await store.find(key + "x") is None or key + "x" in keys.values()

    run(check())


async def test_running_server_sees_keys_changed_by_another_process(
    place: Path | SecretStr, database: Database
) -> None:
    clock = Clock()
    async with Database(place) as first, Database(place) as second:
        server, command_line = KeyStore(first, clock), KeyStore(second)
        assert await server.find("secret") is None
        await command_line.add("weblate", "secret")
        clock.seconds += 1.0
        assert await server.find("secret") is not None
        await command_line.remove("weblate")
        clock.seconds += 1.0
        assert await server.find("secret") is None


async def test_keys_are_read_once_for_many_requests(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeyStore(database, Clock())
    await store.add("weblate", "secret")
    assert await store.find("secret") is not None
    monkeypatch.setattr(Database, "read", None)
    assert await store.find("secret") is not None
    assert await store.find("other") is None


async def test_each_of_many_keys_is_found_by_its_digest(database: Database) -> None:
    store = KeyStore(database, Clock())
    for name in "abc":
        await store.add(name, f"key-of-{name}")
    found = [await store.find(f"key-of-{name}") for name in "abc"]
    assert [key and (key.name, key.digest) for key in found] == [
        (name, sha256(f"key-of-{name}".encode()).digest()) for name in "abc"
    ]


async def test_key_is_in_no_file_or_repr(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        store = KeyStore(database)
        key = await store.add("weblate")
        found = await store.find(key)
        assert found is not None
        assert found.digest.hex() not in repr(found)
        assert repr(found.digest) not in repr(found)
        for path in tmp_path.iterdir():
            assert key.encode() not in path.read_bytes()


async def test_invalid_names_keys_and_limits_are_refused(database: Database) -> None:
    store = KeyStore(database)
    for name in ("", "a b", "-a", "a\n", "ü", "a" * 65, "a/b"):
        with pytest.raises(KeyRefused, match="is no name for a key; use at most 64 letters"):
            await store.add(name)
    for key in ("", "a b", "a\n", "ü", "a" * 201):
        with pytest.raises(KeyRefused, match="travels in a header") as refusal:
            await store.add("weblate", key)
        assert not key or key not in str(refusal.value)
    for limit in ("requests_per_minute", "characters_per_month"):
        for value in (-1, 2**64):
            with pytest.raises(KeyRefused, match="is no limit"):
                await store.add("weblate", **{limit: value})
    assert await store.all() == ()


async def test_names_and_keys_are_unique(database: Database) -> None:
    store = KeyStore(database)
    await store.add("weblate", "secret")
    with pytest.raises(KeyRefused, match="a key named 'weblate' already"):
        await store.add("weblate", "other")
    with pytest.raises(KeyRefused, match="is that of 'weblate' already"):
        await store.add("mastodon", "secret")
    with pytest.raises(KeyRefused, match="no key named 'mastodon'"):
        await store.remove("mastodon")
    assert await store.find("other") is None


@given(st.text())
def test_unknown_key_with_lone_surrogate_is_not_found(key: str) -> None:
    async def check() -> None:
        async with Database(None) as database:
            assert await KeyStore(database).find(key + "\ud800") is None

    run(check())


async def test_keys_are_read_again_only_after_a_change(
    database: Database,
) -> None:
    clock = Clock()
    store = KeyStore(database, clock)
    await store.add("weblate", "secret")
    first = await store.find("secret")
    clock.seconds += 2.0
    assert await store.find("secret") is first
    await KeyStore(database).add("mastodon", "other")
    clock.seconds += 2.0
    assert await store.find("other") is not None


async def test_known_keys_work_for_some_time_without_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = KeyStore(database, clock)
    await store.add("weblate", "secret")
    assert await store.find("secret") is not None
    monkeypatch.setattr(Database, "read", raiser(StateFailed()))
    clock.seconds += 890.0
    assert await store.find("secret") is not None
    clock.seconds += 20.0
    with pytest.raises(StateFailed):
        await store.find("secret")
    with pytest.raises(StateFailed):
        await KeyStore(database, clock).find("secret")
