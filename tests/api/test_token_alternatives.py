"""Tests of ``return_alternatives``, with a model whose second choice is the letter of the text."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.answers import answered, refused

pytestmark = pytest.mark.anyio


async def asked(client: httpx.AsyncClient, q: str, **fields: Any) -> httpx.Response:
    body = {"q": q, "source": "de", "target": "en", "return_alternatives": True, **fields}
    return await client.post("/translate", json=body)


async def found(client: httpx.AsyncClient, q: str, **fields: Any) -> list[str]:
    answer = await answered(asked(client, q, **fields))
    return [answer["translatedText"], *answer.get("alternatives", [])]


async def test_each_of_the_likeliest_tokens_is_continued(client: httpx.AsyncClient) -> None:
    assert await found(client, "ab cd", num_hypotheses=2) == ["AB CD", "aB CD"]


async def test_alternatives_are_of_the_token_after_the_prefix(client: httpx.AsyncClient) -> None:
    texts = await found(client, "ab cd", num_hypotheses=2, target_prefix="Ab ")
    assert texts == ["Ab CD", "Ab cD"]


async def test_less_likely_tokens_are_left_out(client: httpx.AsyncClient) -> None:
    fields = {"num_hypotheses": 2, "return_scores": True}
    scores = (await asked(client, "ab cd", **fields)).json()["scores"]
    assert scores == sorted(scores, reverse=True)
    kept = await found(client, "ab cd", num_hypotheses=2, min_alternative_expansion_prob=0.5)
    assert kept == ["AB CD"]


async def test_only_the_first_sentence_has_alternatives(client: httpx.AsyncClient) -> None:
    texts = await found(client, "ab.\ncd.", num_hypotheses=2)
    assert texts == ["AB.\nCD.", "aB.\nCD."]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"min_alternative_expansion_prob": 1.0}, "the likeliest next token has the probability"),
        ({"min_alternative_expansion_prob": 1.5}, "min_alternative_expansion_prob"),
        ({"prefix_bias_beta": 0.5, "target_prefix": "A"}, "excludes prefix_bias_beta"),
        ({"num_hypotheses": 1000}, "this model is loaded for at most 4"),
    ],
)
async def test_impossible_request_is_refused(
    client: httpx.AsyncClient, fields: dict[str, Any], problem: str
) -> None:
    assert problem in await refused(asked(client, "ab", **fields))
