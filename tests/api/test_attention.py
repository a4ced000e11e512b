from __future__ import annotations

import io
from typing import Any

import httpx
import numpy as np
import pytest

from service.bootstrap import Service
from service.catalogue.attention_reader import AttentionReader
from service.runtime.backend import AttentionMaps
from tests.api.answers import DE_EN, refused

PAIR = {**DE_EN, "source_text": "ja, das", "target_text": "JA, DAS"}


@pytest.fixture
async def kept(client: httpx.AsyncClient) -> str:
    """The id of a translation of two texts, of which the second has two sentences."""
    body = {"q": ["ja, das", "Hallo Welt. Wie geht es?"], "attention": True, **DE_EN}
    response = await client.post("/translate", json=body)
    translation_id = response.json()["id"]
    assert response.headers["x-translation-id"] == translation_id
    assert isinstance(translation_id, str)
    return translation_id


async def get(client: httpx.AsyncClient, path: str, **parameters: Any) -> httpx.Response:
    return await client.get(f"/translations/{path}", params=parameters)


async def test_kept_translation_lists_its_legs(client: httpx.AsyncClient, kept: str) -> None:
    response = await get(client, kept)
    document = response.json()
    assert document["id"] == kept
    first, second = document["texts"]
    assert (first["translatedText"], first["source"], first["target"]) == ("JA, DAS", "de", "en")
    assert "detectedLanguage" not in first
    (leg,) = second["legs"]
    assert leg["model"] == "shout-de-en"
    assert (leg["layers"], leg["heads"]) == ({"encoder": 1, "decoder": 1}, 2)
    assert [sentence["target"] for sentence in leg["sentences"]] == ["HALLO WELT.", "WIE GEHT ES?"]
    assert leg["sentences"][1]["source_pieces"] == [*"Wie geht es?", "</s>"]
    assert leg["sentences"][1]["target_pieces"] == [*"WIE GEHT ES?", "</s>"]


async def test_kept_translation_has_the_detected_language(client: httpx.AsyncClient) -> None:
    body = {"q": "Das ist ein kleines Haus.", "source": "auto", "target": "en", "attention": True}
    translated = (await client.post("/translate", json=body)).json()
    (text,) = (await get(client, translated["id"])).json()["texts"]
    assert text["detectedLanguage"] == translated["detectedLanguage"]


async def test_attention_map_is_returned_as_json(client: httpx.AsyncClient, kept: str) -> None:
    document = (await get(client, f"{kept}/attention", text=1, sentence=1)).json()
    assert document["kind"] == "cross"
    assert document["rows"] == [*"WIE GEHT ES?", "</s>"]
    assert document["columns"] == [*"Wie geht es?", "</s>"]
    assert (document["layers"], document["heads"]) == ([0], "mean")
    (found,) = document["maps"]
    assert (found["layer"], found["head"]) == (0, "mean")
    weights = np.array(found["weights"])
    assert weights.shape == (13, 13)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


async def test_attention_maps_are_returned_as_npy_and_png(
    client: httpx.AsyncClient, kept: str
) -> None:
    path = f"{kept}/attention"
    for kind in ("cross", "encoder", "decoder"):
        listed = (await get(client, path, kind=kind, head="all")).json()
        response = await get(client, path, kind=kind, head="all", format="npy")
        assert response.headers["content-type"] == "application/octet-stream"
        array = np.load(io.BytesIO(response.content), allow_pickle=False)
        expected = np.array([each["weights"] for each in listed["maps"]])
        assert array.shape == (1, 2, len(listed["rows"]), len(listed["columns"]))
        np.testing.assert_allclose(array[0], expected, atol=1e-6)
        assert kind != "decoder" or not np.triu(array, 1).any()
    response = await get(client, path, head="all", format="png")
    assert response.headers["content-type"] == "image/png"
    assert response.content.startswith(b"\x89PNG")


async def test_words_are_aligned(client: httpx.AsyncClient, kept: str) -> None:
    document = (await get(client, f"{kept}/alignment")).json()
    assert (document["source"], document["target"]) == ("ja, das", "JA, DAS")
    assert document["source_words"] == [
        {"text": "ja", "start": 0, "end": 2},
        {"text": ",", "start": 2, "end": 3},
        {"text": "das", "start": 4, "end": 7},
    ]
    links = [(link["source"], link["target"]) for link in document["links"]]
    assert links == [(0, 0), (1, 1), (2, 2)]
    response = await get(client, f"{kept}/alignment", format="pharaoh")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == "0-0 1-1 2-2\n"


def searched(document: Any) -> tuple[dict[int, Any], list[str]]:
    """The candidates of a search by their ids, and the pieces of its winner."""
    every = {each["id"]: each for step in document["steps"] for each in step["candidates"]}
    winner, pieces = document["winner"], list[str]()
    while winner:
        pieces.append(every[winner]["piece"])
        winner = every[winner]["parent"]
    return every, pieces[::-1]


async def test_search_of_a_kept_sentence_ends_with_its_translation(
    client: httpx.AsyncClient, kept: str
) -> None:
    document = (await get(client, f"{kept}/search", text=1, sentence=1)).json()
    assert document["source"] == [*"Wie geht es?", "</s>"]
    assert (document["model"], document["reproduced"]) == ("shout-de-en", True)
    every, pieces = searched(document)
    assert list(every) == list(range(1, len(every) + 1))
    assert max(len(step["candidates"]) for step in document["steps"]) == 4
    assert every[document["winner"]]["fate"] == "finished"
    assert pieces == [*"WIE GEHT ES?", "</s>"]
    for each in every.values():
        before = every[each["parent"]]["sum"] if each["parent"] else 0.0
        assert each["sum"] == pytest.approx(before + each["log_probability"], abs=1e-5)


async def test_search_repeats_the_options_of_the_translation(client: httpx.AsyncClient) -> None:
    searches: list[dict[str, Any]] = [
        {"beam_size": 1},
        {"beam_size": 4, "num_hypotheses": 3, "length_penalty": 0.0},
        {"prefix": "JA, d"},
        {"target_prefix": "NEIN, ", "prefix_bias_beta": 0.9},
        {"sampling_topk": 5, "sampling_temperature": 3.0, "seed": 7},
        {"coverage_penalty": 1.0, "no_repeat_ngram_size": 2, "disable_unk": True},
        {"max_decoding_length": 3},
    ]
    for options in searches:
        body = {"q": "ja, das", "attention": True, **DE_EN, **options}
        translated = (await client.post("/translate", json=body)).json()
        document = (await get(client, f"{translated['id']}/search")).json()
        assert document["reproduced"], options
        text = "".join(searched(document)[1]).replace("</s>", "")
        assert text == translated["translatedText"]


async def test_search_of_a_kept_sentence_is_not_counted_as_a_translation(
    client: httpx.AsyncClient, kept: str
) -> None:
    async def counted() -> list[str]:
        text = (await client.get("/metrics")).text
        return [
            line
            for line in text.splitlines()
            if line.startswith(("nmt_finished_sentences_total", "nmt_target_tokens_total"))
        ]

    before = await counted()
    assert sum(float(line.split()[-1]) for line in before) > 0
    assert (await get(client, f"{kept}/search")).status_code == 200
    assert await counted() == before


async def test_search_is_drawn_as_svg_and_png(client: httpx.AsyncClient, kept: str) -> None:
    response = await get(client, f"{kept}/search", format="svg")
    assert response.headers["content-type"] == "image/svg+xml"
    assert b"</svg>" in response.content
    response = await get(client, f"{kept}/search", format="png")
    assert response.headers["content-type"] == "image/png"
    assert response.content.startswith(b"\x89PNG")


async def test_place_that_a_kept_translation_lacks_is_refused_by_name(
    client: httpx.AsyncClient, kept: str
) -> None:
    for parameters, problem in (
        ({"layer": "1"}, "layer 1 does not exist; this model has 1"),
        ({"head": "0-2"}, "head 0-2 does not exist; this model has 2"),
        ({"head": "some"}, "head must be a number, a range"),
        ({"text": "2"}, "text 2 does not exist; this translation has 2"),
        ({"sentence": "1"}, "sentence 1 does not exist; this translation has 1"),
    ):
        assert problem in await refused(get(client, f"{kept}/attention", **parameters))


async def test_attention_of_two_given_texts(client: httpx.AsyncClient) -> None:
    numbers: list[dict[str, Any]] = [
        {"json": {**PAIR, "layer": "0", "head": "1", "model": "shout-de-en"}},
        {"data": {**PAIR, "layer": "0", "head": "1", "model": "shout-de-en"}},
        {"json": {**PAIR, "layer": 0, "head": 1}},
    ]
    for sent in numbers:
        document = (await client.post("/attention", **sent)).json()
        assert document["rows"] == [*"JA, DAS", "</s>"]
        assert [(each["layer"], each["head"]) for each in document["maps"]] == [(0, 1)]
        assert "alignment" not in document
    response = await client.post("/attention", json={**PAIR, "head": None})
    assert response.json()["heads"] == "mean"


async def test_attention_of_a_kept_translation_equals_that_of_its_texts(
    client: httpx.AsyncClient, kept: str
) -> None:
    """Required so that any replica can answer."""
    for parameters in ({"kind": "encoder", "head": "all"}, {"kind": "decoder"}, {}):
        found = await get(client, f"{kept}/attention", **parameters)
        assert (await client.post("/attention", json=PAIR | parameters)).json() == found.json()


async def test_maps_and_alignment_of_two_texts_come_from_one_run_of_one_model(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload between two runs could pair the maps of one model with another's alignment."""
    runs, leases = [], []
    read, lease = AttentionReader.read, service.repository.lease

    async def counted_read(reader: AttentionReader, *ids: tuple[int, ...]) -> AttentionMaps:
        runs.append(ids)
        return await read(reader, *ids)

    def counted_lease(*pair: Any) -> Any:
        leases.append(pair)
        return lease(*pair)

    monkeypatch.setattr(AttentionReader, "read", counted_read)
    monkeypatch.setattr(service.repository, "lease", counted_lease)
    response = await client.post("/attention", json={**PAIR, "alignment": True})
    assert set(response.json()) >= {"maps", "alignment"}
    assert (len(runs), len(leases)) == (1, 1)


async def test_two_texts_are_aligned_on_request(client: httpx.AsyncClient, kept: str) -> None:
    found = (await get(client, f"{kept}/alignment")).json()
    document = (await client.post("/attention", json={**PAIR, "alignment": True})).json()
    assert document["alignment"] == found
    response = await client.post("/attention", json={**PAIR, "format": "pharaoh"})
    assert response.text == "0-0 1-1 2-2\n"
    response = await client.post("/attention", json={**PAIR, "format": "png"})
    assert response.headers["content-type"] == "image/png"


async def test_likely_translations_score_higher(client: httpx.AsyncClient) -> None:
    body = {**DE_EN, "source_text": "ja", "target_text": ["JA", "ja", ""]}
    scores = (await client.post("/score", json=body)).json()["scores"]
    assert [each["score"] for each in scores] == sorted(
        (each["score"] for each in scores), reverse=True
    )
    best = scores[0]
    assert [token["piece"] for token in best["tokens"]] == ["J", "A", "</s>"]
    assert best["log_prob"] == pytest.approx(sum(t["log_prob"] for t in best["tokens"]))
    assert best["score"] == pytest.approx(best["log_prob"] / 3)
    assert best["perplexity"] == pytest.approx(np.exp(-best["score"]))
    assert [token["piece"] for token in scores[2]["tokens"]] == ["</s>"]


async def test_confidence_lists_the_words_of_the_target_only_if_requested(
    client: httpx.AsyncClient,
) -> None:
    body = {**DE_EN, "source_text": "ja nein", "target_text": ["JA NEIN", ""]}
    plain = (await client.post("/score", json=body)).json()["scores"]
    assert all("confidence" not in each for each in plain)
    full = (await client.post("/score", json={**body, "confidence": True})).json()["scores"]
    first, empty = (each.pop("confidence") for each in full)
    assert full == plain
    assert [(word["text"], word["start"], word["end"]) for word in first["words"]] == [
        ("JA", 0, 2),
        ("NEIN", 3, 7),
    ]
    assert first["lowest"] == min(word["probability"] for word in first["words"])
    assert 0 < first["lowest"] <= first["mean"] <= 1
    assert all(word["entropy"] > 0 for word in first["words"])
    assert empty == {"words": [], "mean": None, "lowest": None}
