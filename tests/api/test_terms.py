"""Tests of the field ``glossary`` of ``POST /translate``, with a model that writes capitals."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.api.bounds import TERM_CHARACTERS, TERMS

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
    ("glossary", "named"),
    [
        ("wiese LAWN", "line 1"),
        ("a\tb\na\tc", "line 2"),
        ({"wiese": " LAWN"}, "entry 1"),
        ({"a\nb": "c"}, "entry 1"),
        ({"wiese": 1}, "glossary"),
        ({"": "LAWN"}, "glossary"),
        (["wiese"], "glossary"),
        ({f"wort{number}": "word" for number in range(TERMS + 1)}, f"{TERMS}"),
        ("\n".join(f"wort{number}\tword" for number in range(TERMS + 1)), f"{TERMS:,}"),
        ({f"{number:04}": "x" * 50 for number in range(TERMS)}, f"{TERM_CHARACTERS:,}"),
    ],
)
async def test_wrong_terms_are_refused_by_name(
    client: httpx.AsyncClient, glossary: object, named: str
) -> None:
    response = await asked(client, "die wiese", glossary=glossary)
    assert response.status_code == 400
    assert "glossary parameter" in response.json()["error"]
    assert named in response.json()["error"]


@pytest.mark.parametrize("fields", [{"confidence": True}, {"return_alternatives": True}])
async def test_options_that_terms_exclude_are_named(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    response = await asked(client, "die wiese", glossary=LAWN, **fields)
    assert response.status_code == 400
    assert "glossary" in response.json()["error"]
    assert next(iter(fields)) in response.json()["error"]
