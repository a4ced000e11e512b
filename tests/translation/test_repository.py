from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.bundle.manifest import InvalidBundle
from service.catalogue.catalogue import Preference
from service.catalogue.errors import NotReady, UnknownLanguage
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.permission import Permission
from service.catalogue.repository import FoundBundle, ModelRepository
from service.engine.errors import EngineStopped
from service.engine.types import DecodingOptions
from service.loading.discovery import discover, for_pair
from service.text.types import LanguagePair
from service.translation.admission import Admission
from service.translation.expected_wait import ExpectedWait, Note
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest
from tests.support.toy import (
    EOS,
    FirstLetterDetector,
    load_found,
    put_broken_bundle,
    put_bundle,
    translator_of,
)
from tests.support.waiting import cancelled, until

DE_EN = LanguagePair("de", "en")


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncIterator[ModelRepository]:
    repository = ModelRepository(lambda: discover(tmp_path), load_found)
    yield repository
    await repository.close()


@pytest.fixture
async def with_a(tmp_path: Path, repository: ModelRepository) -> ModelRepository:
    """The repository after it has loaded the bundle ``a``."""
    put_bundle(tmp_path, "a")
    await repository.reload()
    return repository


def names(repository: ModelRepository) -> list[str]:
    return [model.name for model in repository.catalogue.models]


async def works(model: LoadedModel) -> bool:
    try:
        return bool(await model.engine.decode((5, EOS), DecodingOptions(beam_size=1)))
    except EngineStopped:
        return False


async def test_nothing_is_on_offer_before_the_first_load(repository: ModelRepository) -> None:
    with pytest.raises(NotReady, match="being loaded"):
        _ = repository.catalogue


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        (".", "there is no bundle"),
        ("nowhere", "nowhere: No such file or directory"),
        ("parent/a", "a: is a bundle; name the directory that contains it"),
    ],
)
async def test_directory_without_bundles_raises_not_ready_with_the_reason(
    tmp_path: Path, directory: str, reason: str
) -> None:
    put_bundle(tmp_path / "parent", "a")
    repository = ModelRepository(lambda: discover(tmp_path / directory), load_found)
    await repository.reload()
    with pytest.raises(NotReady, match=reason):
        _ = repository.catalogue


async def test_second_bundle_of_a_model_is_offered_once_the_first_is_removed(
    tmp_path: Path, with_a: ModelRepository
) -> None:
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    reloaded = await with_a.reload(retry=False)
    why = "its model a is that of the bundle a; remove one of them"
    assert (names(with_a), reloaded.loaded, reloaded.failed) == (["a"], (), {"b": why})
    shutil.rmtree(tmp_path / "a")
    reloaded = await with_a.reload(retry=False)
    assert (names(with_a), reloaded.loaded, reloaded.failed) == (["a"], ("a",), {})


async def test_copy_of_a_bundle_that_cannot_be_loaded_takes_no_model_off_offer(
    tmp_path: Path, with_a: ModelRepository
) -> None:
    shutil.copytree(tmp_path / "a", tmp_path / "0")
    reloaded = await with_a.reload(retry=False)
    assert (names(with_a), reloaded.retired, list(reloaded.failed)) == (["a"], (), ["0"])
    put_broken_bundle(tmp_path, "a")
    reloaded = await with_a.reload(retry=False)
    assert (names(with_a), sorted(reloaded.failed)) == (["a"], ["0", "a"])


async def test_bundle_that_breaks_keeps_its_loaded_model_on_offer(
    tmp_path: Path, with_a: ModelRepository
) -> None:
    put_broken_bundle(tmp_path, "a")
    await with_a.reload()
    assert names(with_a) == ["a"]
    assert "a" in with_a.failed
    assert await works(with_a.catalogue.models[0])


async def test_changed_bundle_replaces_its_model(
    tmp_path: Path, repository: ModelRepository
) -> None:
    put_bundle(tmp_path, "a", version="1")
    await repository.reload()
    (before,) = repository.catalogue.models
    put_bundle(tmp_path, "a", version="22")
    await repository.reload()
    assert [model.manifest.version for model in repository.catalogue.models] == ["22"]
    assert not before.engine.alive


async def test_stopped_model_is_listed_and_replaced_by_a_reload(with_a: ModelRepository) -> None:
    await with_a.catalogue.models[0].engine.close()
    assert list(with_a.stopped) == ["a"]
    await with_a.reload()
    assert list(with_a.stopped) == []
    assert await works(with_a.catalogue.models[0])


async def test_stopped_model_is_kept_and_not_reloaded_at_every_poll(tmp_path: Path) -> None:
    tries = 0

    async def load(bundle: FoundBundle) -> LoadedModel:
        nonlocal tries
        tries += 1
        if tries > 1:
            raise MemoryError("the device is lost")
        return await load_found(bundle)

    put_bundle(tmp_path, "a")
    repository = ModelRepository(lambda: discover(tmp_path), load)
    await repository.reload()
    await repository.catalogue.models[0].engine.close()
    for _ in range(3):
        await repository.reload(retry=False)
    assert tries == 2
    assert list(repository.stopped) == ["a"]
    await repository.close()


async def test_reload_returns_loaded_retired_and_failed_bundles(
    tmp_path: Path, repository: ModelRepository
) -> None:
    put_bundle(tmp_path, "a")
    put_bundle(tmp_path, "b", "en", "de")
    assert (await repository.reload()).loaded == ("a", "b")
    assert not (await repository.reload()).changed
    put_bundle(tmp_path, "a", version="22")
    shutil.rmtree(tmp_path / "b")
    put_broken_bundle(tmp_path, "c")
    done = await repository.reload()
    assert (done.loaded, done.retired, list(done.failed)) == (("a",), ("b",), ["c"])


async def test_a_bundle_copied_in_pieces_is_tried_again_with_each_piece(tmp_path: Path) -> None:
    async def load(bundle: FoundBundle) -> LoadedModel:
        for name in ("weights", "tokenizer"):
            if not (bundle.path / name).exists():
                raise InvalidBundle(f"lacks {name}")
        return await load_found(bundle)

    put_bundle(tmp_path, "a")
    repository = ModelRepository(lambda: discover(tmp_path), load)
    assert (await repository.reload(retry=False)).failed == {"a": "lacks weights"}
    (tmp_path / "a" / "weights").touch()
    assert (await repository.reload(retry=False)).failed == {"a": "lacks tokenizer"}
    (tmp_path / "a" / "tokenizer").touch()
    assert (await repository.reload(retry=False)).loaded == ("a",)
    await repository.close()


async def test_sentences_are_decoded_to_their_end_while_their_model_is_replaced(
    tmp_path: Path, with_a: ModelRepository
) -> None:
    source = (*range(5, 60), EOS)

    async def work() -> int:
        async with with_a.lease(DE_EN) as (directed,):
            decoded = await directed.model.engine.decode(source, DecodingOptions(beam_size=1))
            return len(decoded.hypotheses[0].token_ids)

    working = [asyncio.create_task(work()) for _ in range(20)]
    await asyncio.sleep(0)
    for version in range(5):
        put_bundle(tmp_path, "a", version=str(version) * 3)
        await with_a.reload()
        working += [asyncio.create_task(work()) for _ in range(5)]
        await asyncio.sleep(0)
    assert set(await asyncio.gather(*working)) == {len(source) - 1}


async def test_a_reload_does_not_disturb_work_in_flight(
    tmp_path: Path, with_a: ModelRepository
) -> None:
    async with with_a.lease(DE_EN) as (directed,):
        shutil.rmtree(tmp_path / "a")
        put_bundle(tmp_path, "b")
        await with_a.reload()
        assert names(with_a) == ["b"]
        assert await works(directed.model)
    assert not directed.model.engine.alive


async def test_reloads_run_one_at_a_time(tmp_path: Path) -> None:
    loading: list[str] = []

    async def load(bundle: FoundBundle) -> LoadedModel:
        assert not loading
        loading.append(bundle.name)
        await asyncio.sleep(0.001)
        loading.remove(bundle.name)
        return await load_found(bundle)

    put_bundle(tmp_path, "a")
    repository = ModelRepository(lambda: discover(tmp_path), load)
    await asyncio.gather(*(repository.reload() for _ in range(3)))
    assert names(repository) == ["a"]
    await repository.close()


async def test_cancelled_reload_closes_the_models_it_loaded(tmp_path: Path) -> None:
    loaded: list[LoadedModel] = []

    async def load(bundle: FoundBundle) -> LoadedModel:
        if loaded:
            await asyncio.sleep(60)
        loaded.append(await load_found(bundle))
        return loaded[0]

    put_bundle(tmp_path, "a")
    put_bundle(tmp_path, "b", "en", "de")
    repository = ModelRepository(lambda: discover(tmp_path), load)
    reload = asyncio.create_task(repository.reload())
    await until(lambda: loaded)
    await cancelled(reload)
    assert not loaded[0].engine.alive


async def test_close_withdraws_the_catalogue_and_stops_leased_models(
    with_a: ModelRepository,
) -> None:
    async with with_a.lease(DE_EN) as (directed,):
        await with_a.close()
        assert not directed.model.engine.alive
    with pytest.raises(NotReady, match="shutting down"):
        _ = with_a.catalogue


async def test_codes_are_found_in_any_spelling(with_a: ModelRepository) -> None:
    assert with_a.catalogue.pair("DE", "eng") == DE_EN


@pytest.mark.parametrize("code", ["zz", "fr", "", "x" * 1000, "\ud800", "de en"])
async def test_unknown_language_is_refused_with_those_on_offer(
    with_a: ModelRepository, code: str
) -> None:
    with pytest.raises(UnknownLanguage, match="is not supported; on offer: de"):
        with_a.catalogue.pair(code, "en")


async def test_request_without_a_model_gets_the_preferred_then_the_best_scored_then_the_first(
    tmp_path: Path,
) -> None:
    for name in ("alone", "best", "chosen", "fair"):
        put_bundle(tmp_path, name)
        path = tmp_path / name / "manifest.json"
        content = json.loads(path.read_text("utf-8"))
        score = {"metric": "BLEU", "precision": "int8", "beam_size": 4, "signature": ""}
        value = {"best": 30.0, "fair": 20.0}.get(name)
        content["provenance"]["scores"] = (
            [{**score, "test_set": "flores/devtest, de-en", "value": value}] if value else []
        )
        path.write_text(json.dumps(content), "utf-8")
    pair = LanguagePair("de", "en")
    for preferred, order in (
        ((), ["best", "fair", "alone", "chosen"]),
        (("absent", "chosen"), ["chosen", "best", "fair", "alone"]),
    ):
        repository = ModelRepository(lambda: discover(tmp_path), load_found, Preference(preferred))
        await repository.reload()
        for name in order:
            (directed,) = repository.catalogue.route(pair)
            assert directed.model.name == name
            await directed.model.engine.close()
        await repository.close()


async def test_translated_sentences_count_as_work_by_their_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_bundle(tmp_path, "a")
    repository = ModelRepository(lambda: discover(tmp_path), load_found)
    await repository.reload()
    expected, noted = ExpectedWait({"interactive": 2.0, "bulk": 30.0}), list[tuple[float, bool]]()

    @contextmanager
    def counted(*_: object) -> Iterator[Note]:
        yield lambda tokens, decoded=True: noted.append((tokens, decoded))

    monkeypatch.setattr(expected, "counted", counted)
    translator = LocalTranslator(repository, Admission(10_000, expected), FirstLetterDetector())
    await translator.translate(TranslateRequest(("eins. zwei. drei.",), "en", "de"))
    assert noted == [(len("eins. zwei. drei.") + 1, True)]
    await repository.close()


async def test_canaries_get_their_shares_of_the_texts_and_come_last_otherwise(
    tmp_path: Path,
) -> None:
    for name in ("a-canary", "b-canary", "main"):
        put_bundle(tmp_path, name)
    preference = Preference(canaries={"a-canary": 5, "b-canary": 20})
    repository = ModelRepository(lambda: discover(tmp_path), load_found, preference)
    await repository.reload()
    catalogue, pair = repository.catalogue, LanguagePair("de", "en")

    def chosen(text: str, name: str | None = None, permission: Permission | None = None) -> str:
        (directed,) = catalogue.route(pair, name, permission, text)
        return directed.model.name

    texts = [f"Satz {i}" for i in range(4000)]
    first = [chosen(text) for text in texts]
    assert first == [chosen(text) for text in texts]
    shares = {name: count / 40 for name, count in Counter(first).items()}
    assert shares == pytest.approx({"a-canary": 5, "b-canary": 20, "main": 75}, abs=2)
    assert chosen("") == "main"
    assert {chosen(text, "b-canary") for text in texts[:50]} == {"b-canary"}
    # All batches of a document get the model of its sample.
    translator = translator_of(repository)
    for sample in ("Satz 1", texts[first.index("b-canary")]):
        batch = TranslateRequest((texts[first.index("a-canary")],), "en", "de", sample=sample)
        (translation,) = await translator.translate(batch)
        assert translation.model == chosen(sample)
    permission = Permission(models=frozenset({"main"}))
    assert {chosen(text, permission=permission) for text in texts[:200]} == {"main"}
    # The share of a model that has died falls to the pair's others, not to the next canary.
    await catalogue.named("a-canary").engine.close()
    assert Counter(map(chosen, texts)) == Counter(
        "main" if name == "a-canary" else name for name in first
    )
    await catalogue.named("main").engine.close()
    assert {chosen(text) for text in texts[:200]} == {"b-canary"}
    await repository.close()


async def test_canary_that_alone_translates_a_pair_leaves_the_rest_to_the_pivot(
    tmp_path: Path,
) -> None:
    for name, target in (("canary", "fr"), ("de-en", "en")):
        put_bundle(tmp_path, name, "de", target)
    preference, pair = Preference(canaries={"canary": 20}), LanguagePair("de", "fr")
    repository = ModelRepository(lambda: discover(tmp_path), load_found, preference)

    def names(text: str) -> tuple[str, ...]:
        return tuple(each.model.name for each in repository.catalogue.route(pair, text=text))

    texts = [f"Satz {i}" for i in range(200)]
    for pivot, local in (((), ["canary"]), (("en-fr",), ["de-en", "en-fr"])):
        for name in pivot:
            put_bundle(tmp_path, name, "en", "fr")
        await repository.reload()
        rest = tuple(local)
        assert {names(text) for text in texts} == {("canary",), rest}
        assert names("") == rest
        found = for_pair(discover(tmp_path), pair, preference)
        assert [bundle.name for bundle in found] == local
    await repository.close()
