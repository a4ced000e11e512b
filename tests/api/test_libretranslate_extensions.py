"""Tests of the extensions of ``POST /translate`` beyond LibreTranslate."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from service.bootstrap import Service
from service.catalogue.result_cache import ResultCache
from service.engine.errors import BackendFailed
from tests.api.answers import DE_EN, answered, refused


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


async def test_decoding_options_reach_the_engine(client: httpx.AsyncClient) -> None:
    answer = await translated(client, q="ab", beam_size=3, num_hypotheses=2, length_penalty=0.5)
    assert len(answer["alternatives"]) == 1
    form = {"q": "abcdef", **DE_EN, "max_decoding_length": "3"}
    answer = (await client.post("/translate", data=form)).json()
    assert answer["translatedText"] == "ABC"
    assert (answer["finish_reason"], answer["truncated"]) == ("length", True)


async def test_truncation_is_reported_per_text(client: httpx.AsyncClient) -> None:
    answer = await translated(client, q=["abcdef", "ab"], max_decoding_length=3)
    assert answer["truncated"] == [True, False]
    assert answer["finish_reason"] == ["length", "complete"]


async def test_scores_are_returned_only_on_request(client: httpx.AsyncClient) -> None:
    assert "scores" not in await translated(client, q="ab", alternatives=1)
    answer = await translated(client, q="ab", alternatives=1, return_scores=True)
    best, second = answer["scores"]
    assert 0 > best > second
    assert len(answer["alternatives"]) == 1


async def test_untranslated_text_has_no_score(client: httpx.AsyncClient) -> None:
    answer = await translated(client, q=["ab", "!?", ""], beam_size=1, return_scores=True)
    assert answer["scores"][0][0] < 0
    assert answer["scores"][2] == [None]
    answer = await translated(client, q="a", source="en", target="en", return_scores=True)
    assert answer["scores"] == [None]


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


async def test_stream_ends_with_the_confidence(client: httpx.AsyncClient) -> None:
    answer = await translated(client, q="Ja. Nein.", confidence=True)
    assert (await streamed(client, q="Ja. Nein.", confidence=True))[-1] == ("done", answer)


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


async def test_text_in_the_target_language_has_no_confidence(client: httpx.AsyncClient) -> None:
    answer = await translated(client, q="a", source="en", target="en", confidence=True)
    assert answer["confidence"] is None


async def test_confidence_of_html_is_refused(client: httpx.AsyncClient) -> None:
    body = {**DE_EN, "q": "<b>ab</b>", "format": "html", "confidence": True}
    message = await refused(client.post("/translate", json=body))
    assert "confidence parameter is for plain text only; leave out format html" in message


async def test_timings_are_milliseconds_and_returned_only_on_request(
    client: httpx.AsyncClient,
) -> None:
    assert "timings" not in await translated(client, q="ab")
    timings = (await translated(client, q=["ab", "cd"], timings=True))["timings"]
    assert set(timings) == {"preparing", "queued", "decoding", "total"}
    assert timings["total"] >= timings["decoding"] > 0


async def test_translation_with_attention_is_kept_by_id(client: httpx.AsyncClient) -> None:
    assert "id" not in await translated(client, q="ab")
    response = await client.post("/translate", json={"q": ["ab", "cd"], **DE_EN, "attention": True})
    identifier = response.json()["id"]
    assert response.headers["x-translation-id"] == identifier
    found = (await client.get(f"/translations/{identifier}")).json()
    assert [text["translatedText"] for text in found["texts"]] == ["AB", "CD"]


@pytest.mark.parametrize(
    "fields",
    [
        {"q": " eins. zwei!\n\n drei? \n"},
        {"q": ["eins. zwei.", "", "🎉", "drei."]},
        {"q": "ab", "alternatives": 2, "return_scores": True},
        {"q": "<p>eins. <b>zwei</b>.</p>\n", "format": "html"},
        {"q": ["Guten Tag, mein Freund.", "Bonjour, mon ami."], "source": "auto"},
        {"q": "oui. non.", "source": "fr", "target": "de"},
        {"q": "a. b.", "source": "de", "target": "de"},
    ],
    ids=["blanks", "batch", "alternatives", "html", "detected", "pivot", "unchanged"],
)
async def test_stream_ends_with_the_unstreamed_answer(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    *parts, (last, done) = await streamed(client, **fields)
    assert last == "done"
    assert done == await translated(client, **fields)
    assert {name for name, _ in parts} <= {"part"}
    texts = done["translatedText"]
    texts = [texts] if isinstance(texts, str) else texts
    order = [part["text"] for _, part in parts]
    assert order == sorted(order)
    for number, text in enumerate(texts):
        shown = [part["translatedText"] for _, part in parts if part["text"] == number]
        assert "".join(shown) == text


async def test_form_may_request_a_stream(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", data={"q": "ab", **DE_EN, "stream": "true"})
    assert [name for name, _ in events_of(response)] == ["part", "done"]


async def test_streamed_translation_with_attention_is_kept_by_id(client: httpx.AsyncClient) -> None:
    *_, (_, done) = await streamed(client, q="ab", attention=True)
    assert (await client.get(f"/translations/{done['id']}")).status_code == 200


async def test_invalid_stream_request_returns_an_error_status(client: httpx.AsyncClient) -> None:
    for fields, status in (({"target": "zz"}, 400), ({"model": "zz"}, 404), ({"q": ""}, 400)):
        asked = {"q": "a", **DE_EN, "stream": True, **fields}
        await refused(client.post("/translate", json=asked), status)


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


async def test_keep_figures_reaches_the_search(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    decode = ResultCache.decode

    async def noting(self: ResultCache, sentences: Any, *rest: Any) -> Any:
        asked.extend(options.all_finished for _, options in sentences)
        return await decode(self, sentences, *rest)

    monkeypatch.setattr(ResultCache, "decode", noting)
    await translated(client, q="hund 1")
    await translated(client, q="hund 1", keep_figures=False)
    await translated(client, q="hund 1", return_scores=True)
    await translated(client, q="hund")
    await client.post("/translate", data={**DE_EN, "q": "hund 1", "keep_figures": "false"})
    assert asked == [True, False, False, False, False]
