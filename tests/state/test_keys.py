from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from service.state import keys
from service.state.database import FILE_NAME, Database
from service.state.errors import KeyNotFound, KeyRefused, StateFailed
from service.state.keys import KeyStore, Limits
from tests.state.clocks import Clock, run
from tests.support.raising import raiser

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=50)
WEST = timezone(-timedelta(hours=5))


async def test_a_random_key_is_found_with_its_limits(database: Database) -> None:
    store = KeyStore(database)
    languages = ("de-en", "en", "zh-Hans", "pt-BR-zh-Hans", "x-digits-x-words")
    limits = Limits(60, 0, bulk=True, models=("general-de-en", "m"), languages=languages)
    key = await store.add("weblate", limits=limits)
    other = await store.add("mastodon")
    assert key.startswith("drg_")
    assert key != other
    assert len(key) > 40
    found = await store.find(key)
    assert found is not None
    assert found.name == "weblate"
    assert found.limits == limits
    await store.limit("weblate", lambda _: Limits())
    found = await store.find(key)
    assert found is not None
    assert found.limits == Limits()
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


async def test_changes_of_limits_by_two_processes_at_once_are_both_kept(
    place: Path | SecretStr, database: Database
) -> None:
    async with Database(place) as first, Database(place) as second:
        stores = KeyStore(first), KeyStore(second)
        await stores[0].add("weblate", "secret")
        meeting = threading.Barrier(2)

        def change(limits: Limits, **changes: bool | int) -> Limits:
            with suppress(threading.BrokenBarrierError):
                # The other reads the limits in this time, unless it waits for this change.
                meeting.wait(0.3)
            return replace(limits, **changes)

        await asyncio.gather(
            stores[0].limit("weblate", partial(change, bulk=True)),
            stores[1].limit("weblate", partial(change, requests_per_minute=9)),
        )
        found = await stores[0].find("secret")
        assert found is not None and found.limits == Limits(9, bulk=True)


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
    assert [key and (key.name, key.secrets[0].digest) for key in found] == [
        (name, sha256(f"key-of-{name}".encode()).digest()) for name in "abc"
    ]


async def test_key_is_in_no_file_or_repr(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        store = KeyStore(database)
        key = await store.add("weblate")
        found = await store.find(key)
        assert found is not None
        (secret,) = found.secrets
        assert secret.digest.hex() not in repr(found)
        assert repr(secret.digest) not in repr(found)
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
                await store.add("weblate", limits=Limits(**{limit: value}))
    for languages in (("DE",), ("de-EN",), ("de-",), ("",), ("de-en-fr",), ("deutsch",), ("-",)):
        with pytest.raises(KeyRefused, match="neither the code of a language, such as de, nor"):
            await store.add("weblate", limits=Limits(languages=languages))
    for limits, problem in (
        (Limits(languages=("en-de", "fr")), "fr permits no pair by itself"),
        (Limits(languages=("en-de",) * 101), "101 names are too many; a key has at most 100"),
        (Limits(models=("a/b",)), "'a/b' is no name of a model; see GET /models"),
    ):
        with pytest.raises(KeyRefused, match=problem):
            await store.add("weblate", limits=limits)
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


async def test_rotation_lets_the_older_keys_work_until_they_expire(database: Database) -> None:
    time = datetime(2026, 11, 26, 12, tzinfo=UTC)
    store = KeyStore(database, Clock(), lambda: time)
    first = await store.add("weblate", limits=Limits(requests_per_minute=5))
    soon = time + timedelta(hours=1)
    second = await store.rotate("weblate", old_expire=soon, expires=time + timedelta(days=1))
    for key in (first, second):
        found = await store.find(key)
        assert found is not None
        assert (found.name, found.limits.requests_per_minute) == ("weblate", 5)
    time = soon
    assert await store.find(first) is None
    assert await store.find(second) is not None
    third = await store.rotate("weblate")
    assert [await store.find(key) is not None for key in (first, second, third)] == [0, 0, 1]
    (holder,) = await store.all()
    # The first one had expired, and is forgotten.
    assert [each.expires for each in holder.secrets] == [soon, None]
    with pytest.raises(KeyRefused, match="has passed"):
        await store.rotate("weblate", expires=soon)
    for name in ("mastodon", "\0"):
        with pytest.raises(KeyNotFound):
            await store.rotate(name)


async def test_a_name_has_a_bounded_number_of_keys(database: Database) -> None:
    store = KeyStore(database)
    await store.add("weblate")
    later = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(KeyRefused, match="let some of them expire"):
        for _ in range(10):
            await store.rotate("weblate", old_expire=later)
    assert len((await store.all())[0].secrets) == 10
    # A key that has leaked can be replaced at once.
    key = await store.rotate("weblate")
    secrets = (await store.all())[0].secrets
    assert [each.expires is None for each in secrets] == 10 * [False] + [True]
    assert await store.find(key) is not None
    with pytest.raises(KeyRefused, match="beyond the end of the calendar"):
        await store.rotate("weblate", old_expire=datetime.max.replace(tzinfo=WEST))


@settings(max_examples=10)
@given(st.lists(st.text(), min_size=10))
def test_unknown_key_with_lone_surrogate_is_not_found(keys: list[str]) -> None:
    async def check() -> None:
        async with Database(None) as database:
            for key in keys:
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


async def test_known_keys_work_while_the_database_is_silent(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, silent = Clock(), asyncio.Event()
    store = KeyStore(database, clock)
    await store.add("weblate", "secret")
    assert await store.find("secret") is not None
    with monkeypatch.context() as patch:
        patch.setattr(Database, "read", lambda *_: silent.wait())
        patch.setattr(keys, "_PATIENCE_SECONDS", 0.01)
        for seconds in (2.0, 10.0, 10.0):
            clock.seconds += seconds
            assert await store.find("secret") is not None
    # A change by this process needs no answer to the reading that waits.
    await store.add("mastodon", "other")
    assert await store.find("other") is not None
