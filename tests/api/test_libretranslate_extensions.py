"""Tests of the extensions of ``POST /translate`` beyond LibreTranslate."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from service.bootstrap import Service
from service.catalogue.attention_reader import AttentionReader
from service.catalogue.result_cache import ResultCache
from service.engine.errors import BackendFailed
from tests.api.answers import DE_EN, answered


async def translated(client: httpx.AsyncClient, **fields: Any) -> Any:
    return await answered(client.post("/translate", json={**DE_EN, **fields}))


def events_of(response: httpx.Response) -> list[tuple[str, Any]]:
    events = []
    for block in response.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


async def streamed(client: httpx.AsyncClient, **fields: Any) -> list[tuple[str, Any]]:
    response = await client.post("/translate", json={**DE_EN, **fields, "stream": True})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events_of(response)


async def test_confidence_of_a_translation_is_that_of_scoring_it(client: httpx.AsyncClient) -> None:
    plain = await translated(client, q="eins zwei")
    answer = await translated(client, q="eins zwei", confidence=True)
    confidence = answer.pop("confidence")
    assert answer == plain
    scored = await client.post(
        "/score",
        json={**DE_EN, "source_text": "eins zwei", "target_text": "EINS ZWEI", "confidence": True},
    )
    (sentence,) = confidence.pop("sentences")
    assert confidence == scored.json()["scores"][0]["confidence"]
    summary = {name: confidence[name] for name in ("mean", "lowest")}
    assert sentence == {"start": 0, "end": len("EINS ZWEI"), **summary}


async def test_confidence_of_equal_sentences_is_computed_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, ...]] = []
    original = AttentionReader.read

    async def counting(reader: Any, source_ids: tuple[int, ...], *others: Any) -> Any:
        read.append(source_ids)
        return await original(reader, source_ids, *others)

    monkeypatch.setattr(AttentionReader, "read", counting)
    answer = await translated(client, q=["Ja.", "Ab.", "  Ja."], confidence=True)
    assert len(read) == len(set(read)) == 2
    places = [[each["start"] for each in of["sentences"]] for of in answer["confidence"]]
    assert places == [[0], [0], [2]]


async def test_confidence_has_words_and_sentences_at_their_place_in_each_text(
    client: httpx.AsyncClient,
) -> None:
    texts = ["  Ja. Nein, \u00fcber 7.\n\n!?\nDoch ", "", "ab"]
    answer = await translated(client, q=texts, confidence=True, alternatives=1)
    for text, found in zip(answer["translatedText"], answer["confidence"], strict=True):
        for word in found["words"]:
            assert text[word["start"] : word["end"]] == word["text"]
        for sentence in found["sentences"]:
            inside = [
                word["probability"]
                for word in found["words"]
                if sentence["start"] <= word["start"] and word["end"] <= sentence["end"]
            ]
            assert sentence["lowest"] == min(inside)
            assert sentence["mean"] == pytest.approx(math.prod(inside) ** (1 / len(inside)))
    of_text = [[word["text"] for word in each["words"]] for each in answer["confidence"]]
    assert of_text == [["JA", ".", "NEIN", ",", "\u00fcBER", "7", ".", "DOCH"], [], ["AB"]]
    first, empty, _ = answer["confidence"]
    of_first = [answer["translatedText"][0][s["start"] : s["end"]] for s in first["sentences"]]
    assert of_first == ["JA.", "NEIN, \u00fcBER 7.", "DOCH"]
    assert empty == {"words": [], "mean": None, "lowest": None, "sentences": []}


async def test_confidence_of_a_begun_translation_has_the_place_in_the_whole(
    client: httpx.AsyncClient,
) -> None:
    for prefix in ("JA.  N", "JA. NEIN  ", "Ja"):
        answer = await translated(client, q="Ja. Nein ab.", prefix=prefix, confidence=True)
        text = answer["translatedText"]
        assert text.startswith(prefix)
        found = answer["confidence"]
        assert {text[w["start"] : w["end"]] == w["text"] for w in found["words"]} == {True}
        # A sentence that the prefix has in full is not decoded.
        first = 0 if prefix == "Ja" else 3
        assert found["words"][0]["start"] >= first


STREAMED: list[dict[str, Any]] = [
    {"q": " eins. zwei!\n\n drei? \n"},
    {"q": ["eins. zwei.", "", "🎉", "drei."]},
    {"q": "ab", "alternatives": 2, "return_scores": True},
    {"q": "<p>eins. <b>zwei</b>.</p>\n", "format": "html"},
    {"q": ["Guten Tag, mein Freund.", "Bonjour, mon ami."], "source": "auto"},
    {"q": "oui. non.", "source": "fr", "target": "de"},
    {"q": "a. b.", "source": "de", "target": "de"},
    {"q": "Ja. Nein.", "confidence": True},
    {"q": "die wiese", "glossary": {"wiese": "LAWN"}},
]


async def test_stream_ends_with_the_unstreamed_answer(client: httpx.AsyncClient) -> None:
    for fields in STREAMED:
        *parts, (last, done) = await streamed(client, **fields)
        assert last == "done", fields
        assert done == await translated(client, **fields)
        assert {name for name, _ in parts} <= {"part"}
        texts = done["translatedText"]
        texts = [texts] if isinstance(texts, str) else texts
        order = [part["text"] for _, part in parts]
        assert order == sorted(order)
        for number, text in enumerate(texts):
            shown = [part["translatedText"] for _, part in parts if part["text"] == number]
            assert "".join(shown) == text
    form = {"q": "ab", **DE_EN, "stream": "true", "attention": "true"}
    *parts, (last, done) = events_of(await client.post("/translate", data=form))
    assert ([name for name, _ in parts], last) == (["part"], "done")
    assert (await client.get(f"/translations/{done['id']}")).status_code == 200


async def test_failure_during_a_stream_is_its_last_event(
    client: httpx.AsyncClient, service: Service
) -> None:
    model = service.repository.catalogue.named("shout-de-en")

    async def failing(source_ids: tuple[int, ...], *rest: Any) -> Any:
        decoded = await model.engine.decode(source_ids, *rest)
        if len(source_ids) > 12:
            raise BackendFailed("the model failed on this batch")
        return decoded

    model.results = ResultCache(failing)
    q = ["Eins.", "Und dies ist zu lang."]
    *parts, (last, error) = await streamed(client, q=q)
    assert (last, error) == ("error", {"error": "the model failed on this batch", "status": 500})
    assert [part["translatedText"] for _, part in parts] == ["EINS."]
