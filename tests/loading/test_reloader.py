from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle, ModelRepository
from service.loading.discovery import discover
from service.loading.loader import announcing
from service.loading.reloader import Reloader
from service.observability.metrics import Metrics
from tests.support.toy import BROKEN, load_found, put_broken_bundle, put_bundle
from tests.support.waiting import cancelled, until

NEVER, AT_ONCE = 0, 0.001


class Watched:
    """A repository over a directory that records the bundles it tries to load."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.tried: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.metrics = Metrics()
        load = announcing(self._load_path, self.metrics.model_loaded)
        self.repository = ModelRepository(lambda: discover(directory), load)
        self.reloader = Reloader(self.repository, self.metrics, seconds)

    async def _load_path(self, path: Path) -> LoadedModel:
        self.tried.append(path.name)
        await self.gate.wait()
        return await load_found(FoundBundle(path.name, path))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def polls(self) -> float:
        outcomes = ("changed", "unchanged", "failed", "error")
        return sum(self.value("nmt_reloads_total", outcome=o) or 0 for o in outcomes)

    def names(self) -> list[str]:
        return [model.name for model in self.repository.catalogue.models]


@asynccontextmanager
async def watching(directory: Path, seconds: float) -> AsyncIterator[Watched]:
    watched = Watched(directory, seconds)
    async with watched.reloader.running():
        await watched.reloader.reload("start")
        yield watched
    await watched.repository.close()


async def test_polling_loads_added_bundles_and_retires_removed_ones(tmp_path: Path) -> None:
    put_bundle(tmp_path, "a")
    async with watching(tmp_path, AT_ONCE) as watched:
        put_bundle(tmp_path, "b", "en", "de")
        await until(lambda: watched.names() == ["a", "b"])
        shutil.rmtree(tmp_path / "a")
        await until(lambda: watched.names() == ["b"])


async def test_without_polling_only_a_request_reloads(tmp_path: Path) -> None:
    put_bundle(tmp_path, "a")
    async with watching(tmp_path, NEVER) as watched:
        put_bundle(tmp_path, "b", "en", "de")
        await asyncio.sleep(0.01)
        assert watched.names() == ["a"]
        done = await watched.reloader.reload()
        assert (done.loaded, done.retired, done.failed) == (("b",), (), {})
        assert watched.names() == ["a", "b"]
        put_bundle(tmp_path, "c", "fr", "de")
        # A signal does the same.
        watched.reloader.request()
        await until(lambda: watched.names() == ["a", "b", "c"])


async def test_only_a_request_tries_a_broken_bundle_again_before_it_changes(
    tmp_path: Path,
) -> None:
    put_bundle(tmp_path, "a")
    put_broken_bundle(tmp_path, "b")
    async with watching(tmp_path, AT_ONCE) as watched:
        await until(lambda: watched.polls() > 5)
        assert watched.tried == ["a", "b"]
        assert watched.repository.failed.keys() == {"b"}
        assert (await watched.reloader.reload()).failed == {"b": BROKEN}
        assert watched.tried == ["a", "b", "b"]
        put_bundle(tmp_path, "b", "en", "de")
        await until(lambda: watched.names() == ["a", "b"])
        assert watched.repository.failed == {}


async def test_missing_directory_is_logged_once_and_models_stay_on_offer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "bundles"
    put_bundle(directory, "a")
    async with watching(directory, AT_ONCE) as watched:
        directory.rename(tmp_path / "elsewhere")
        await until(lambda: (watched.value("nmt_reloads_total", outcome="failed") or 0) > 5)
        # A poll that began before the directory was away may log its end as well.
        assert [record.levelno for record in caplog.records if record.levelno > logging.INFO] == [
            logging.ERROR
        ]
        assert watched.names() == ["a"]
        (tmp_path / "elsewhere").rename(directory)
        await until(lambda: watched.repository.failed == {})
        assert watched.tried == ["a"]


async def test_directory_that_goes_away_while_it_is_listed_retires_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "bundles"
    put_bundle(directory, "a")
    async with watching(directory, NEVER) as watched:
        listed = Path.iterdir

        def entries(path: Path) -> list[Path]:
            found = list(listed(path))
            path.rename(tmp_path / "elsewhere")
            return found

        monkeypatch.setattr(Path, "iterdir", entries)
        assert (await watched.reloader.reload()).retired == ()
        assert watched.names() == ["a"]


async def test_reload_outlasts_its_cancelled_caller_and_not_the_service(tmp_path: Path) -> None:
    async with asyncio.timeout(30), watching(tmp_path, NEVER) as watched:
        for name in "ab":
            watched.gate.clear()
            put_bundle(tmp_path, name)
            waiting = asyncio.create_task(watched.reloader.reload())
            await until(lambda n=name: watched.tried[-1:] == [n])  # type: ignore[misc]
            await cancelled(waiting)
            if name == "a":
                watched.gate.set()
                await until(lambda: watched.value("nmt_reloads_total", outcome="changed") == 1)
                assert watched.names() == ["a"]


async def test_metrics_count_reloads_and_list_models_on_offer(tmp_path: Path) -> None:
    put_bundle(tmp_path, "a")
    put_broken_bundle(tmp_path, "c")
    async with watching(tmp_path, NEVER) as watched:
        assert watched.value("nmt_bundles_failed") == 1
        assert watched.value("nmt_reload_success_timestamp_seconds") == 0
        put_bundle(tmp_path, "b", "en", "de")
        for name in "ac":
            shutil.rmtree(tmp_path / name)
        await watched.reloader.reload()
        await watched.reloader.reload()
        assert watched.value("nmt_bundles_failed") == 0
        assert watched.value("nmt_reload_success_timestamp_seconds") > 0
        (offered,) = [
            sample.labels["model"]
            for family in watched.metrics.registry.collect()
            if family.name == "nmt_model_info"
            for sample in family.samples
        ]
        assert offered == "b"
        outcomes = ("changed", "unchanged", "failed")
        counts = [watched.value("nmt_reloads_total", outcome=outcome) for outcome in outcomes]
        assert counts == [1, 1, 1]


async def test_exception_while_polling_is_logged_and_polling_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def buggy() -> list[FoundBundle]:
        nonlocal calls
        calls += 1
        raise KeyError("a bug")

    metrics = Metrics()
    reloader = Reloader(ModelRepository(buggy, load_found), metrics, AT_ONCE)
    async with reloader.running():
        await until(lambda: calls > 2)
    assert "reloading failed unexpectedly" in caplog.text
    assert metrics.registry.get_sample_value("nmt_reloads_total", {"outcome": "error"}) >= 2
