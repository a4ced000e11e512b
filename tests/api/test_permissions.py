"""Keys that are restricted to models and languages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore, Limits
from tests.support.asgi import connected
from tests.support.fronts import owning, worker_of
from tests.support.toy import put_bundle

DE_EN, FR_EN, FR_DE = ("de", "en"), ("fr", "en"), ("fr", "de")
"""The last one is a pivot route of two models."""

KEYS = {
    "all": Limits(),
    "pair": Limits(languages=("de-en",)),
    "codes": Limits(languages=("de", "en")),
    "pivot": Limits(languages=("fr-de",)),
    "model": Limits(models=("shout-de-en",)),
    "second": Limits(models=("twice-de-en", "shout-fr-en")),
}


@dataclass(frozen=True)
class Asking:
    client: httpx.AsyncClient
    keys: dict[str, str]

    async def post(self, key: str, path: str, **fields: Any) -> httpx.Response:
        headers = {"x-api-key": self.keys[key]}
        files = {"file": ("a.txt", b"wort")} if "file" in path or "document" in path else None
        form = {"data": fields, "files": files} if files else {"json": fields}
        return await self.client.post(path, headers=headers, **form)  # type: ignore[arg-type]

    async def translate(self, key: str, pair: tuple[str, str], **more: Any) -> httpx.Response:
        return await self.post(key, "/translate", q="wort", source=pair[0], target=pair[1], **more)


@pytest.fixture
async def restricted(settings: Settings) -> tuple[Settings, dict[str, str]]:
    put_bundle(settings.bundles, "twice-de-en", "de", "en")
    assert settings.state_directory is not None
    async with Database(settings.state_directory / FILE_NAME) as database:
        store = KeyStore(database)
        keys = {name: await store.add(name, limits=limits) for name, limits in KEYS.items()}
    return settings.model_copy(update={"api_keys": "required"}), keys


@pytest.fixture
async def asking(restricted: tuple[Settings, dict[str, str]]) -> AsyncIterator[Asking]:
    settings, keys = restricted
    async with connected(settings) as client:
        yield Asking(client, keys)


async def test_only_permitted_pairs_and_models_are_translated(asking: Asking) -> None:
    # The answer to an unrestricted key is kept, and answers no other key.
    for pair in (DE_EN, FR_EN, FR_DE):
        assert (await asking.translate("all", pair)).status_code == 200
    for key, pair, problem in (
        ("pair", DE_EN, None),
        ("pair", ("en", "de"), "this key may not translate en-de; it is for de-en"),
        ("pair", FR_EN, "this key may not translate fr-en; it is for de-en"),
        ("codes", DE_EN, None),
        ("codes", ("en", "de"), None),
        ("codes", FR_EN, "this key may not translate fr-en; it is for de, en"),
        ("codes", FR_DE, "this key may not translate fr-de; it is for de, en"),
        ("pivot", FR_DE, None),
        ("pivot", FR_EN, "this key may not translate fr-en; it is for fr-de"),
        ("model", DE_EN, None),
        ("model", FR_EN, "this key may not use the model shout-fr-en; it is for shout-de-en"),
        ("model", FR_DE, "this key may not use the model shout-fr-en; it is for shout-de-en"),
        ("second", FR_DE, "this key may not use the model shout-en-de; it is for shout-fr-en, …"),
    ):
        for _ in range(2):
            answer = await asking.translate(key, pair)
            assert answer.status_code == (403 if problem else 200), (key, pair)
            assert answer.json().get("error", "").startswith((problem or "").rstrip("…"))
    assert (await asking.translate("second", DE_EN)).json()["model"] == "twice-de-en"
    assert (await asking.translate("all", DE_EN)).json()["model"] == "shout-de-en"
    named = await asking.translate("second", DE_EN, model="shout-de-en")
    assert (named.status_code, "the model shout-de-en" in named.text) == (403, True)
    nothing = await asking.translate("pair", ("en", "en"))
    assert nothing.json()["translatedText"] == "wort"


FRENCH = {"source": "fr", "target": "en"}


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        (
            "/translate",
            {"q": "Le chien est dans la maison", "source": "auto", "target": "en"},
            "error",
        ),
        ("/v2/translate", {"text": ["a"], "source_lang": "FR", "target_lang": "EN-US"}, "message"),
        ("/imme", {"source_lang": "fr", "target_lang": "en", "text_list": ["a"]}, "error"),
        ("/language/translate/v2", {"q": "a", **FRENCH}, "error"),
        ("/translate_file", FRENCH, "error"),
        ("/v2/document", {"source_lang": "FR", "target_lang": "EN-US"}, "message"),
        ("/alternatives", {"q": "a", "position": 0, **FRENCH}, "error"),
        ("/alternatives", {"q": "a", "translation": "A", "position": 0, **FRENCH}, "error"),
        ("/sentences", {"q": "a", **FRENCH}, "error"),
        ("/attention", {"source_text": "a", "target_text": "A", **FRENCH}, "error"),
        ("/score", {"source_text": "a", "target_text": "A", **FRENCH}, "error"),
    ],
)
async def test_every_route_refuses_in_its_shape(
    asking: Asking, path: str, fields: dict[str, Any], name: str
) -> None:
    for key in ("codes", "model"):
        refused = await asking.post(key, path, **fields)
        assert refused.status_code == 403, refused.text
        assert set(refused.json()) == {name}
        assert "this key may not" in refused.text


async def test_lists_show_what_a_key_may_use(asking: Asking) -> None:
    async def got(path: str, key: str | None) -> Any:
        headers = {} if key is None else {"x-api-key": asking.keys.get(key, key)}
        return (await asking.client.get(path, headers=headers)).json()

    everything = {"de": {"de", "en"}, "en": {"de", "en"}, "fr": {"de", "en", "fr"}}
    for key, languages, models in (
        (None, everything, 4),
        ("wrong", everything, 4),
        ("all", everything, 4),
        ("pair", {"de": {"de", "en"}, "en": {"en"}}, 4),
        ("codes", {"de": {"de", "en"}, "en": {"de", "en"}}, 4),
        ("pivot", {"de": {"de"}, "fr": {"de", "fr"}}, 4),
        ("model", {"de": {"de", "en"}, "en": {"en"}}, 1),
    ):
        listed = {each["code"]: set(each["targets"]) for each in await got("/languages", key)}
        assert listed == languages
        assert len((await got("/models", key))["models"]) == models
        if key in KEYS:
            sources = {code for code, targets in languages.items() if targets != {code}}
            listed = {each["language"] for each in await got("/v2/languages", key)}
            assert listed == {code.upper() for code in sources}
            targets = {t for code, targets in languages.items() for t in targets - {code}}
            found = {each["language"][:2] for each in await got("/v2/languages?type=target", key)}
            assert found == {code.upper() for code in targets}
            resource = await got("/v3/languages?resource=translate_text", key)
            assert {each["lang"] for each in resource if each["usable_as_source"]} == sources
            assert {each["lang"][:2] for each in resource if each["usable_as_target"]} == targets
            asked = await got("/language/translate/v2/languages", key)
            assert {each["language"] for each in asked["data"]["languages"]} == sources | targets
            pairs = {(source, t) for source, each in languages.items() for t in each - {source}}
            for path, header in (("/listPairs", key), (f"/listPairs?key={asking.keys[key]}", None)):
                listed_pairs = (await got(path, header))["responseData"]
                assert {tuple(each.values()) for each in listed_pairs} == pairs


async def test_glossaries_are_listed_for_permitted_pairs_of_one_model(asking: Asking) -> None:
    # The pivot route from French to German has no glossary.
    for key, sources in (("codes", {"de", "en"}), ("pivot", set()), ("model", {"de"})):
        answer = await asking.client.get(
            "/v3/languages?resource=glossary", headers={"x-api-key": asking.keys[key]}
        )
        assert {each["lang"] for each in answer.json() if each["usable_as_source"]} == sources


async def test_worker_refuses_as_well(
    restricted: tuple[Settings, dict[str, str]], tmp_path: Path
) -> None:
    settings, keys = restricted
    async with (
        owning(settings, tmp_path / "owner"),
        worker_of(settings, tmp_path / "owner") as (_, client),
    ):
        asking = Asking(client, keys)
        assert (await asking.translate("pair", DE_EN)).status_code == 200
        assert (await asking.translate("pair", FR_EN)).status_code == 403
        assert (await asking.translate("second", DE_EN)).json()["model"] == "twice-de-en"
