"""Tests of ``POST /sentences``."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import DE_EN, answered
from tests.support.asgi import connected
from tests.support.keys import add_key

TEXT = " Zu ab.  Die {name} ist da!\n\n12 | Noch eins"


async def found(client: httpx.AsyncClient, **fields: Any) -> Any:
    return await answered(client.post("/sentences", json={**DE_EN, **fields}))


async def test_separators_around_translated_sentences_are_the_translation_of_the_text(
    client: httpx.AsyncClient,
) -> None:
    answer = await found(client, q=TEXT)
    assert answer["sentences"] == ["Zu ab.", "Die {name} ist da!", "Noch eins"]
    assert answer["separators"] == [" ", "  ", "\n\n12 | ", ""]
    assert (answer["source"], answer["model"]) == ("de", "shout-de-en")
    parts = client.post("/translate", json={**DE_EN, "q": answer["sentences"]})
    whole = await answered(client.post("/translate", json={**DE_EN, "q": TEXT}))
    joined = answer["separators"][0]
    for translation, after in zip(
        (await answered(parts))["translatedText"], answer["separators"][1:], strict=True
    ):
        joined += translation + after
    assert joined == whole["translatedText"]


async def test_glossary_language_and_route_decide_the_sentences(client: httpx.AsyncClient) -> None:
    assert (await found(client, q="12"))["sentences"] == []
    assert (await found(client, q="12", glossary={"12": "zwölf"}))["sentences"] == ["12"]
    answer = await found(client, q="Das Wetter ist heute schön.", source="auto")
    assert answer["detectedLanguage"]["language"] == "de"
    answer = await found(client, q="Zu ab. Ja.", target="de")
    assert (answer["sentences"], answer["separators"]) == ([], ["Zu ab. Ja."])
    assert answer["model"] is None
    answer = await found(client, q="Zu ab. Ja.", source="fr", target="de")
    assert answer["model"] == "shout-fr-en+shout-en-de"
    assert answer["separators"] == ["", " ", ""]


async def test_a_list_is_refused_as_no_text(client: httpx.AsyncClient) -> None:
    response = await client.post("/sentences", json={**DE_EN, "q": ["zu"]})
    assert response.json() == {"error": "Invalid request: q parameter must be a valid string"}


@pytest.mark.parametrize("path", ["/sentences", "/translate"])
async def test_splitting_costs_a_request_but_no_characters(settings: Settings, path: str) -> None:
    key = await add_key(settings.state, "key", characters_per_month=3, requests_per_minute=1)
    headers = {"authorization": f"Bearer {key}"}
    async with connected(settings, api_keys="required") as client:
        body = {**DE_EN, "q": "zu ab"}
        response = await client.post(path, json=body, headers=headers)
        assert response.status_code == (200 if path == "/sentences" else 403)
        response = await client.post("/sentences", json=body, headers=headers)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) > 0
