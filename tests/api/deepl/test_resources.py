"""Languages by resource at ``/v3/languages``, and what each resource offers."""

from __future__ import annotations

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import answered, refused
from tests.support.asgi import connected
from tests.support.toy import put_bundle

PATH = "/v3/languages"
STABLE = {"status": "stable"}


async def test_languages_of_texts_have_sides_variants_and_features(
    client: httpx.AsyncClient,
) -> None:
    listed = await answered(client.get(PATH, params={"resource": "translate_text"}))
    found = {each["lang"]: each for each in listed}
    assert list(found) == ["en", "en-GB", "en-US", "fr", "de"]
    both = {"auto_detection", "glossary", "tag_handling", "translation_memory"}
    for code, name, source, target, features in (
        ("en", "English", True, True, both),
        ("en-GB", "English (British)", False, True, both - {"auto_detection"}),
        ("fr", "French", True, False, both),
    ):
        assert found[code] == {
            "lang": code,
            "name": name,
            "status": "stable",
            "usable_as_source": source,
            "usable_as_target": target,
            "features": dict.fromkeys(features, STABLE),
        }


@pytest.mark.parametrize("simplified", [False, True])
async def test_chinese_is_a_target_under_its_code_and_with_its_script(
    settings: Settings, simplified: bool
) -> None:
    """A variant is listed once, with or without a model of its own."""
    for target in ("zh", "zh-Hans") if simplified else ("zh",):
        put_bundle(settings.bundles, f"shout-{target.lower()}", "de", target)
    async with connected(settings) as client:
        targets = await answered(client.get("/v2/languages?type=target"))
        found = await answered(client.get(PATH, params={"resource": "translate_text"}))
        body = {"text": ["a"], "source_lang": "DE", "target_lang": "ZH-HANS"}
        assert await answered(client.post("/v2/translate", json=body))
    names = {each["language"]: each["name"] for each in targets if each["language"] > "Z"}
    assert names.keys() == {"ZH", "ZH-HANS"}
    assert names["ZH"] == "Chinese (simplified)"
    assert [each["lang"] for each in found if each["lang"] > "z"] == ["zh", "zh-Hans"]
    assert len(targets) == 5


async def test_languages_of_other_resources_have_no_features_or_there_are_none(
    settings: Settings,
) -> None:
    asked = {"resource": "translate_document", "include": "beta"}
    async with connected(settings) as client:
        for resource in ("glossary", "translation_memory"):
            listed = await answered(client.get(PATH, params={"resource": resource}))
            found = {each["lang"]: each["features"] for each in listed}
            assert found == {"en": {}, "fr": {}, "de": {}}
        for resource in ("write", "voice", "style_rules"):
            assert await answered(client.get(PATH, params={"resource": resource})) == []
        assert await answered(client.get(PATH, params=asked))
    # Workers keep their connections to a service that still runs.
    async with connected(settings, documents=False) as without:
        assert await answered(without.get(PATH, params=asked)) == []


async def test_every_resource_is_listed_with_the_sides_its_features_need(
    client: httpx.AsyncClient,
) -> None:
    resources = await answered(client.get(f"{PATH}/resources"))
    features = {each["name"]: each["features"] for each in resources}
    assert len(features) == 7
    assert features["translation_memory"] == features["voice"] == []
    both = {"needs_source_support": True, "needs_target_support": True}
    assert features["translate_document"] == [
        {"name": "auto_detection", "needs_source_support": True},
        {"name": "glossary", **both},
    ]


@pytest.mark.parametrize("query", ["", "?resource=", "?resource=bogus", "?product=translate_text"])
async def test_missing_or_unknown_resource_is_400(client: httpx.AsyncClient, query: str) -> None:
    message = await refused(client.get(PATH + query))
    assert "resource" in message
    assert ("renamed to 'resource'" in message) == query.startswith("?product")
