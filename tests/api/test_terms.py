"""Tests of the field ``glossary`` of ``POST /translate``, with a model that writes capitals."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.api.fields.bounds import TERM_CHARACTERS, TERMS
from tests.api.answers import refused

pytestmark = pytest.mark.anyio

LAWN = {"wiese": "LAWN"}


async def asked(client: httpx.AsyncClient, q: str | list[str], **fields: Any) -> httpx.Response:
    return await client.post("/translate", json={"q": q, "source": "de", "target": "en", **fields})


@pytest.mark.parametrize("glossary", [LAWN, "wiese\tLAWN", "\nwiese\tLAWN\r\n"])
async def test_terms_are_written_in_every_text(
    client: httpx.AsyncClient, glossary: dict[str, str] | str
) -> None:
    response = await asked(client, ["die wiese", "ein haus"], glossary=glossary)
    first, second = response.json()["translatedText"]
    assert "LAWN" in first
    assert second == "EIN HAUS"


async def test_terms_are_text_in_a_form(client: httpx.AsyncClient) -> None:
    form = {"q": "die wiese", "source": "de", "target": "en", "glossary": "wiese\tLAWN\r\n"}
    response = await client.post("/translate", data=form)
    assert "LAWN" in response.json()["translatedText"]


async def test_terms_are_written_in_streamed_sentences_and_markup(
    client: httpx.AsyncClient,
) -> None:
    streamed = await asked(client, "die wiese", glossary=LAWN, stream=True)
    assert streamed.text.count("LAWN") == 2
    marked = await asked(client, "die <b>wiese</b>", glossary=LAWN, format="html")
    assert "LAWN" in marked.json()["translatedText"]


@pytest.mark.parametrize("glossary", [{}, ""])
async def test_empty_glossary_is_none(
    client: httpx.AsyncClient, glossary: dict[str, str] | str
) -> None:
    response = await asked(client, "die wiese", glossary=glossary)
    assert response.json()["translatedText"] == "DIE WIESE"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"glossary": "wiese LAWN"}, "line 1"),
        ({"glossary": "a\tb\na\tc"}, "line 2"),
        ({"glossary": {"wiese": " LAWN"}}, "entry 1"),
        ({"glossary": {"a\nb": "c"}}, "entry 1"),
        ({"glossary": {"wiese": 1}}, "glossary parameter"),
        ({"glossary": {"": "LAWN"}}, "glossary parameter"),
        ({"glossary": ["wiese"]}, "glossary parameter"),
        ({"glossary": {f"wort{number}": "word" for number in range(TERMS + 1)}}, f"{TERMS:,}"),
        ({"glossary": {str(number): number for number in range(TERMS + 1)}}, f"{TERMS:,}"),
        ({"glossary": "\n".join(f"wort{n}\tword" for n in range(TERMS + 1))}, f"{TERMS:,}"),
        ({"glossary": {f"{n:04}": "x" * 50 for n in range(TERMS)}}, f"{TERM_CHARACTERS:,}"),
        ({"glossary": "x" * (TERM_CHARACTERS + 1)}, f"{TERM_CHARACTERS:,}"),
        ({"confidence": True}, "confidence"),
        ({"return_alternatives": True}, "return_alternatives"),
    ],
)
async def test_wrong_terms_and_options_that_terms_exclude_are_refused_by_name(
    client: httpx.AsyncClient, fields: dict[str, Any], named: str
) -> None:
    message = await refused(asked(client, "die wiese", **{"glossary": LAWN, **fields}))
    assert ("glossary parameter" if "glossary" in fields else "glossary") in message
    assert named in message
