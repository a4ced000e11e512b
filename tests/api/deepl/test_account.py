"""Tests of ``/v2/languages``, ``/v2/usage`` and DeepL's language codes."""

from __future__ import annotations

import httpx

from service.api.deepl.languages import base, stored_pair
from service.text.types import LanguagePair
from tests.api.answers import refused

FORM = {"content-type": "application/x-www-form-urlencoded"}


async def codes(client: httpx.AsyncClient, path: str = "/v2/languages") -> list[str]:
    return [each["language"] for each in (await client.get(path)).json()]


async def test_languages_lists_sources_by_default(client: httpx.AsyncClient) -> None:
    sources = [
        {"language": "EN", "name": "English"},
        {"language": "FR", "name": "French"},
        {"language": "DE", "name": "German"},
    ]
    assert (await client.get("/v2/languages")).json() == sources
    assert (await client.get("/v2/languages?type=source")).json() == sources


async def test_targets_are_listed_by_variant_without_formality(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v2/languages?type=target")).json()
    assert [each["language"] for each in answer] == ["EN-GB", "EN-US", "DE"]
    assert {each["supports_formality"] for each in answer} == {False}


async def test_a_form_in_the_body_of_a_get_is_read(client: httpx.AsyncClient) -> None:
    response = await client.request("GET", "/v2/languages", content=b"type=target", headers=FORM)
    assert [each["language"] for each in response.json()] == ["EN-GB", "EN-US", "DE"]
    empty = await client.request("GET", "/v2/languages", content=b"", headers=FORM)
    assert [each["language"] for each in empty.json()] == ["EN", "FR", "DE"]


async def test_an_unknown_side_is_refused(client: httpx.AsyncClient) -> None:
    assert "'type'" in await refused(client.get("/v2/languages?type=both"))


async def test_usage_counts_translated_characters(client: httpx.AsyncClient) -> None:
    body = {"text": ["hallo", "welt"], "source_lang": "DE", "target_lang": "EN"}
    await client.post("/v2/translate", json=body)
    for method in ("GET", "POST"):
        usage = (await client.request(method, "/v2/usage")).json()
        assert usage["character_count"] == 9
        assert usage["character_limit"] >= 10**12
        assert usage["start_time"] < usage["end_time"]


async def test_every_listed_target_translates(client: httpx.AsyncClient) -> None:
    for target in await codes(client, "/v2/languages?type=target"):
        body = {"text": ["hallo"], "source_lang": "FR", "target_lang": target}
        assert (await client.post("/v2/translate", json=body)).status_code == 200


def test_glossary_codes_ignore_variants() -> None:
    assert [base(code) for code in ("de", "pt-BR", "zh-Hant", "x-shout")] == [
        "de",
        "pt",
        "zh",
        "x-shout",
    ]
    pairs = (LanguagePair("en", "pt-BR"), LanguagePair("en", "de"))
    assert stored_pair("EN", "PT", pairs) == pairs[0]
    assert stored_pair("en", "pt-br", pairs) == pairs[0]
    assert stored_pair("EN", "FR", pairs) == LanguagePair("en", "fr")
