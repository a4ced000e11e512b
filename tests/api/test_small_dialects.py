"""Apertium's, DeepLX's, MTranServer's and Google's dialects: languages, markup, keys and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import answered
from tests.support.asgi import connected
from tests.support.keys import add_key

GOOGLE = "/language/translate/v2"
DEEPLX = {"text": "hallo", "source_lang": "DE", "target_lang": "EN-US"}
PAGE = {"text_list": ["hallo"], "source_lang": "de", "target_lang": "en"}
TEXT = {"q": "hallo", "source": "de", "target": "en"}


@pytest.fixture
async def guarded(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A service that requires keys; that of ``poor`` has a quota of five characters."""
    await add_key(settings.state, "rich", "secret")
    await add_key(settings.state, "poor", "little", characters_per_month=5)
    async with connected(settings, api_keys="required") as client:
        yield client


async def test_every_pair_of_languages_is_listed_and_translated(client: httpx.AsyncClient) -> None:
    pairs = (await answered(client.get("/listPairs")))["responseData"]
    assert {"sourceLanguage": "fr", "targetLanguage": "de"} in pairs
    for each in pairs:
        query = {"langpair": f"{each['sourceLanguage']}|{each['targetLanguage']}", "q": "ja"}
        found = await answered(client.get("/translate", params=query))
        assert found["responseData"] == {"translatedText": "JA"}
    for source in ("", "auto"):
        query = {"langpair": f"{source}|en", "q": "Das Wetter ist heute schön."}
        found = await answered(client.get("/translate", params=query))
        assert found["responseData"] == {"translatedText": "DAS WETTER IST HEUTE SCHöN."}


async def test_get_without_a_pair_is_405_with_every_method(client: httpx.AsyncClient) -> None:
    for asked in (client.get("/translate?q=a"), client.put("/translate")):
        response = await asked
        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_body_with_libretranslates_field_is_not_deeplx(client: httpx.AsyncClient) -> None:
    assert (await answered(client.post("/translate", json=DEEPLX)))["data"] == "HALLO"
    for text in ('"q"', '"q": 1', "q"):
        found = await answered(client.post("/translate", json={**DEEPLX, "text": text}))
        assert found["data"] == text.upper()
    both = await answered(client.post("/translate", json={**DEEPLX, **TEXT}))
    assert both["translatedText"] == "HALLO"
    form = 'q=das "target_lang"&source=de&target=en'
    headers = {"content-type": "application/x-www-form-urlencoded"}
    found = await answered(client.post("/translate", content=form, headers=headers))
    assert found["translatedText"] == 'DAS "TARGET_LANG"'


async def test_dialects_with_equal_bodies_do_not_share_a_reading(client: httpx.AsyncClient) -> None:
    body = {**TEXT, **DEEPLX, **PAGE, "format": "text"}
    for path, field in (("/translate", "translatedText"), ("/imme", "translations")):
        assert field in await answered(client.post(path, json=body))
    assert "data" in await answered(client.post(GOOGLE, json=body))


async def test_markup_of_pages_and_of_googles_texts_stays(client: httpx.AsyncClient) -> None:
    page = {**PAGE, "text_list": ["<b0>hallo</b0> welt", "a & b < c"]}
    found = (await answered(client.post("/imme", json=page)))["translations"]
    assert [each["text"] for each in found] == ["<b0>HALLO</b0> WELT", "A & B < C"]
    for given, written in ((None, "<b>HALLO</b> &amp; A"), ("text", "<B>HALLO</B> & A")):
        body = {**TEXT, "q": ["<b>hallo</b> & a"], "format": given}
        (one,) = (await answered(client.post(GOOGLE, json=body)))["data"]["translations"]
        assert one == {"translatedText": written}
    tagged = {**DEEPLX, "text": "<b>hallo</b>", "tag_handling": "html"}
    assert (await answered(client.post("/translate", json=tagged)))["data"] == "<b>HALLO</b>"


async def test_googles_languages_have_names_if_asked_and_unknown_texts_no_language(
    client: httpx.AsyncClient,
) -> None:
    listed = (await answered(client.get(f"{GOOGLE}/languages")))["data"]["languages"]
    assert listed == [{"language": "en"}, {"language": "fr"}, {"language": "de"}]
    named = await answered(client.get(f"{GOOGLE}/languages?target=en"))
    assert named["data"]["languages"][0] == {"language": "en", "name": "English"}
    texts = {"q": ["Guten Morgen, liebe Freunde.", "123"]}
    found = (await answered(client.post(f"{GOOGLE}/detect", json=texts)))["data"]["detections"]
    assert [len(each) for each in found] == [1, 1]
    assert [each["language"] for (each,) in found] == ["de", "und"]


REQUESTS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("GET", "/translate?langpair=de%7Cen&q=hallo&key={key}", {}),
    ("POST", "/translate?token={key}", DEEPLX),
    ("POST", "/imme?token={key}", PAGE),
    ("POST", GOOGLE + "?key={key}", TEXT),
)


async def _status(client: httpx.AsyncClient, key: str, request: int) -> int:
    method, path, body = REQUESTS[request]
    return (await client.request(method, path.format(key=key), json=body or None)).status_code


@pytest.mark.parametrize("number", range(len(REQUESTS)))
async def test_keys_are_required_and_characters_are_charged(
    guarded: httpx.AsyncClient, number: int
) -> None:
    for key in ("", "wrong"):
        assert await _status(guarded, key, number) in (400, 401, 403)
    assert await _status(guarded, "secret", number) == 200
    assert [await _status(guarded, "little", number) for _ in range(2)] == [200, 403]
    usage = await guarded.get("/v2/usage", headers={"x-goog-api-key": "secret"})
    assert usage.json()["character_count"] == 5


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("GET", "/translate?langpair=de&q=a", None, {"status": "error", "code": 400}),
        ("GET", "/translate?langpair=de%7Czz&q=a", None, {"message": "Bad Request"}),
        ("POST", "/translate", {**DEEPLX, "target_lang": "zz"}, {"code": 400}),
        ("POST", "/translate", {**DEEPLX, "text": ""}, {"message": "text is missing"}),
        ("POST", "/imme", {**PAGE, "text_list": [1]}, {"error": str}),
        ("POST", GOOGLE, {**TEXT, "target": "zz"}, {"error": {"code": 400}}),
        ("POST", GOOGLE, {"q": ["a"]}, {"error": {"message": "target is missing"}}),
        ("POST", f"{GOOGLE}/detect", {"q": ["a"] * 61}, {"error": {"status": "Bad Request"}}),
    ],
)
async def test_refusals_have_the_shape_of_their_dialect(
    client: httpx.AsyncClient, method: str, path: str, body: Any, error: dict[str, Any]
) -> None:
    response = await client.request(method, path, json=body)
    assert response.status_code == 400
    for name, value in error.items():
        found = response.json()[name]
        assert (
            isinstance(found, str)
            if value is str
            else found == value or value.items() <= (found.items())
        )


async def test_errors_from_before_a_dialect_have_its_shape(client: httpx.AsyncClient) -> None:
    large = await client.post(GOOGLE, content=b" " * (65 * 1024))
    assert (large.status_code, large.json()["error"]["code"]) == (413, 413)
    unknown = await client.post("/listPairs", json={})
    assert (unknown.status_code, unknown.json()["code"]) == (405, 405)
