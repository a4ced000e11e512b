"""Tests of ``POST /alternatives``, with a model whose second choice is the letter of the text."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.answers import DE_EN, answered


async def found(client: httpx.AsyncClient, **fields: Any) -> Any:
    return await answered(client.post("/alternatives", json={**DE_EN, **fields}))


async def test_words_are_ranked_by_probability_each_with_its_translation(
    client: httpx.AsyncClient,
) -> None:
    answer = await found(client, q="zu ab xy", position=3)
    assert (answer["translation"], answer["position"]) == ("ZU AB XY", 3)
    words = [each["word"] for each in answer["alternatives"]]
    assert set(words) == {"AB", "aB", "Ab", "ab"}
    assert words[0] == "AB"
    probabilities = [each["probability"] for each in answer["alternatives"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=0.01)
    for each in answer["alternatives"]:
        assert each["translation"] == f"ZU {each['word']} XY"


@pytest.mark.parametrize("text", ["(ab) zu", '"ab" zu', "zu-ab"])
async def test_a_word_may_follow_a_mark_without_a_blank(
    client: httpx.AsyncClient, text: str
) -> None:
    place = text.index("ab")
    answer = await found(client, q=text, position=place)
    assert {each["word"] for each in answer["alternatives"]} == {"AB", "aB", "Ab", "ab"}
    for each in answer["alternatives"]:
        assert each["translation"] == text.upper().replace("AB", each["word"])


async def test_limit_least_probability_words_before_and_language_are_kept(
    client: httpx.AsyncClient,
) -> None:
    answer = await found(client, q="ab", position=0, limit=2)
    assert len(answer["alternatives"]) == 2
    answer = await found(client, q="ab", position=0, min_probability=0.5)
    assert [each["word"] for each in answer["alternatives"]] == ["AB"]
    answer = await found(client, q="zu ab", translation="Qq?ß AB", position=5)
    assert all(each["translation"].startswith("Qq?ß ") for each in answer["alternatives"])
    answer = await found(client, q="Das Wetter ist heute schön.", source="auto", position=0)
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["model"] == "shout-de-en"


async def test_only_the_sentence_with_the_place_changes(client: httpx.AsyncClient) -> None:
    given = "Kept as it is. \n\nZU AB.\nAlso kept"
    at = given.index("AB")
    answer = await found(
        client, q="eins zwei. \n\nzu ab.\ndrei", translation=given, position=at, limit=3
    )
    assert answer["alternatives"][0]["word"] == "AB"
    for each in answer["alternatives"]:
        assert each["translation"] == given.replace("AB", each["word"])
