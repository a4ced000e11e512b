from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.documents import SUPPORTED
from service.settings import Settings
from tests.api.answers import refused
from tests.support.asgi import connected
from tests.support.shouting import put_bundle


@pytest.fixture
async def chinese(settings: Settings, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A service with languages that LibreTranslate spells differently."""
    bundles = tmp_path / "aliases"
    for code in ("zh", "zh-Hant", "pt-BR"):
        put_bundle(bundles, f"shout-{code.lower()}-en", code, "en")
        put_bundle(bundles, f"shout-en-{code.lower()}", "en", code)
    async with connected(settings, bundles=bundles) as client:
        yield client


async def test_languages_are_listed_with_their_targets(client: httpx.AsyncClient) -> None:
    response = await client.get("/languages")
    assert response.json() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "fr", "name": "French", "targets": ["de", "en", "fr"]},
        {"code": "de", "name": "German", "targets": ["de", "en"]},
    ]


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"", "application/x-www-form-urlencoded"),
        (b"api_key=x", "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
    ],
)
@pytest.mark.parametrize("path", ["/languages", "/frontend/settings", "/health"])
async def test_get_requests_may_have_a_body(
    client: httpx.AsyncClient, path: str, content: bytes, content_type: str
) -> None:
    headers = {"content-type": content_type}
    response = await client.request("GET", path, content=content, headers=headers)
    assert response.status_code == 200


async def test_answers_are_in_libretranslates_spelling(chinese: httpx.AsyncClient) -> None:
    listed = {each["code"]: each for each in (await chinese.get("/languages")).json()}
    assert set(listed) == {"en", "zh-Hans", "zh-Hant", "pt-BR"}
    assert listed["en"]["targets"] == ["en", "pt-BR", "zh-Hans", "zh-Hant"]
    found = (await chinese.post("/detect", json={"q": "你今天好吗"})).json()
    assert found[0]["language"] == "zh-Hans"


@pytest.mark.parametrize(
    "code", ["zh", "zh-Hans", "ZH-HANS", "zt", "zh-Hant", "pb", "pt-BR", "pt-br"]
)
async def test_requests_accept_both_spellings(chinese: httpx.AsyncClient, code: str) -> None:
    for source, target in ((code, "en"), ("en", code)):
        asked = {"q": "a", "source": source, "target": target}
        response = await chinese.post("/translate", json=asked)
        assert (response.status_code, response.json().get("translatedText")) == (200, "A")


@pytest.mark.parametrize(("source", "target"), [("DE-at", "EN-US"), ("auto", "en_GB")])
async def test_region_without_a_model_means_its_language(
    client: httpx.AsyncClient, source: str, target: str
) -> None:
    asked = {"q": "das ist ein guter tag", "source": source, "target": target}
    response = await client.post("/translate", json=asked)
    assert response.json()["translatedText"] == "DAS IST EIN GUTER TAG"


@pytest.mark.parametrize("code", ["pt-PT", "zh-TW", "zh-CN"])
async def test_region_is_refused_beside_another_variant_of_its_language(
    chinese: httpx.AsyncClient, code: str
) -> None:
    asked = {"q": "a", "source": code, "target": "en"}
    assert await refused(chinese.post("/translate", json=asked)) == f"{code} is not supported"


@pytest.mark.parametrize(
    ("text", "language"),
    [("Das ist ein sehr schöner Tag.", "de"), ("C'est une très belle journée.", "fr")],
)
async def test_a_language_is_detected(client: httpx.AsyncClient, text: str, language: str) -> None:
    for sent in ({"json": {"q": text}}, {"data": {"q": text}}, {"json": {"q": [text, text]}}):
        found = (await client.post("/detect", **sent)).json()  # type: ignore[arg-type]
        assert found[0]["language"] == language
        confidences = [each["confidence"] for each in found]
        assert confidences == sorted(confidences, reverse=True)
        assert len(found) <= 3
        assert 50 < confidences[0] <= 100


@pytest.mark.parametrize("text", ["🎉", " ", "1234", "\n\n"])
async def test_undetectable_text_returns_english_with_zero_confidence(
    client: httpx.AsyncClient, text: str
) -> None:
    response = await client.post("/detect", json={"q": text})
    assert response.json() == [{"confidence": 0.0, "language": "en"}]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q parameter must be a text or a list of texts"),
        (
            {"q": "x" * 5001},
            "Invalid request: request (5001) exceeds text limit (5000), counted in characters",
        ),
        (
            {"q": ["a"] * 61},
            "Invalid request: request (61) exceeds text limit (60), counted in texts",
        ),
    ],
)
async def test_invalid_detect_request_is_refused(
    client: httpx.AsyncClient, body: dict[str, object], error: str
) -> None:
    assert await refused(client.post("/detect", json=body)) == error


async def test_lone_surrogate_is_refused(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    for q in (b'"\\ud83d"', b'"Das ist \\ud83d gut"'):
        message = await refused(client.post("/detect", content=b'{"q": %s}' % q, headers=headers))
        assert message.startswith("text 1 is not valid Unicode")


async def test_undetectable_text_in_a_list_is_named_and_left_as_it_is(
    client: httpx.AsyncClient,
) -> None:
    texts = ["Das ist ein kleines Haus.", "他在雪地里跑"]
    body = {"q": texts, "source": "auto", "target": "en"}
    answer = (await client.post("/translate", json=body)).json()
    assert answer["translatedText"] == ["DAS IST EIN KLEINES HAUS.", texts[1]]
    assert answer["undetected"] == [1]
    assert answer["detectedLanguage"][1] == {"confidence": 0.0, "language": "en"}
    alone = await client.post("/translate", json={**body, "q": texts[1]})
    assert alone.status_code == 400
    deepl = await client.post("/v2/translate", json={"text": texts, "target_lang": "EN"})
    first, second = deepl.json()["translations"]
    assert "undetected" not in first
    assert (second["text"], second["undetected"]) == (texts[1], True)


async def test_frontend_settings_list_features_and_limits(client: httpx.AsyncClient) -> None:
    assert (await client.get("/frontend/settings")).json() == {
        "charLimit": 5000,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": list(SUPPORTED),
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": "en", "name": "English"},
        },
    }


async def test_spec_redirects_to_the_openapi_document(client: httpx.AsyncClient) -> None:
    response = await client.get("/spec", follow_redirects=True)
    assert response.json() == (await client.get("/openapi.json")).json()


async def test_openapi_document_describes_languages_as_strings(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    content = document["paths"]["/translate"]["post"]["requestBody"]["content"]
    for media_type in ("application/json", "application/x-www-form-urlencoded"):
        properties = content[media_type]["schema"]["properties"]
        for name in ("source", "target"):
            assert properties[name]["type"] == "string"
            assert properties[name]["examples"]


async def test_openapi_document_has_bounds_and_omits_lists_from_forms(
    client: httpx.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()
    content = document["paths"]["/translate"]["post"]["requestBody"]["content"]
    in_json = content["application/json"]["schema"]["properties"]
    in_form = content["application/x-www-form-urlencoded"]["schema"]["properties"]
    number = {"type": "integer", "minimum": 0, "maximum": 3}
    assert in_json["alternatives"]["anyOf"] == [number, {"type": "null"}]
    assert number.items() <= in_form["alternatives"].items()
    assert in_json["q"]["anyOf"][1]["maxItems"] == 60
    assert (in_form["q"]["type"], in_form["q"]["maxLength"]) == ("string", 5000)
    assert "suppress_sequences" in in_json
    assert "suppress_sequences" not in in_form
    own = {"ge", "gt", "le", "lt"}
    assert not any(own & set(choice) for choice in in_form.values())
