"""Tests of ``/v2/document``: upload, status and one-time download."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import answered, refused
from tests.support.asgi import connected

FIELDS = {"source_lang": "DE", "target_lang": "EN-US"}


async def uploaded(
    client: httpx.AsyncClient,
    name: str = "brief.txt",
    content: bytes = b"hallo welt",
    **fields: Any,
) -> httpx.Response:
    return await client.post("/v2/document", data=FIELDS | fields, files={"file": (name, content)})


async def ended(client: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    path, key = f"/v2/document/{handle['document_id']}", handle["document_key"]
    async with asyncio.timeout(10):
        while True:
            status: dict[str, Any] = (await client.post(path, json={"document_key": key})).json()
            if status["status"] not in ("queued", "translating"):
                return status
            await asyncio.sleep(0.005)


async def fetched(client: httpx.AsyncClient, handle: dict[str, str]) -> httpx.Response:
    path = f"/v2/document/{handle['document_id']}/result"
    return await client.post(path, json={"document_key": handle["document_key"]})


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "hallo welt\n\nund mehr\n", "HALLO WELT\n\nUND MEHR\n"),
        ("a.html", "<p>hallo <b>welt</b></p>", "<p>HALLO <b>WELT</b></p>"),
        ("A.MD", "# hallo\n\nund mehr\n", "# HALLO\n\nUND MEHR\n"),
        ("leer.txt", "", ""),
    ],
)
async def test_document_is_translated_and_keeps_its_format(
    client: httpx.AsyncClient, name: str, content: str, expected: str
) -> None:
    handle = await answered(uploaded(client, name, content.encode()))
    status = await ended(client, handle)
    assert status["status"] == "done", status
    assert status["document_id"] == handle["document_id"]
    assert (await fetched(client, handle)).text == expected


async def test_a_translation_has_the_name_and_type_of_its_document(
    client: httpx.AsyncClient,
) -> None:
    handle = (await uploaded(client, r"C:\docs\..\Brief an X.TXT")).json()
    await ended(client, handle)
    headers = (await fetched(client, handle)).headers
    assert headers["content-type"].startswith("text/plain")
    assert "Brief%20an%20X.txt" in headers["content-disposition"]
    assert "docs" not in headers["content-disposition"]


async def test_document_is_charged_for_its_text_without_markup(client: httpx.AsyncClient) -> None:
    handle = (await uploaded(client, "a.html", b"<p>hallo</p>")).json()
    assert (await ended(client, handle))["billed_characters"] == 5
    usage = (await client.get("/v2/usage")).json()
    assert (usage["character_count"], usage["document_count"]) == (5, 1)


@pytest.mark.parametrize("content", [b"12345\n", b""])
@pytest.mark.parametrize("target", ["DE", "EN"])
async def test_document_without_letters_is_returned_unchanged(
    client: httpx.AsyncClient, target: str, content: bytes
) -> None:
    fields = {"source_lang": "", "target_lang": target}
    handle = (await uploaded(client, "a.txt", content, **fields)).json()
    assert (await ended(client, handle))["status"] == "done"
    assert (await fetched(client, handle)).content == content


async def test_a_translation_is_removed_when_it_has_been_sent(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    handle = (await uploaded(client)).json()
    await ended(client, handle)
    assert (await fetched(client, handle)).status_code == 200
    assert (await fetched(client, handle)).status_code == 404
    assert not [path for path in (settings.state / "documents").rglob("*") if path.is_file()]


@pytest.mark.parametrize("action", ["", "/result"])
async def test_document_with_wrong_or_missing_key_is_refused(
    client: httpx.AsyncClient, action: str
) -> None:
    handle = (await uploaded(client)).json()
    await ended(client, handle)
    path = f"/v2/document/{handle['document_id']}{action}"
    assert (await client.post(path, json={"document_key": "guess"})).status_code == 404
    assert (await client.post(path, json={"document_key": "\u00e9\u4e2d"})).status_code == 404
    assert (await client.post(path)).status_code == 400
    assert (await client.get(path, params=handle)).status_code == 200


@pytest.mark.parametrize(
    ("name", "fields", "problem"),
    [
        ("a.pdf", {}, "files .pdf are not supported"),
        ("a.invalid", {}, "Invalid file"),
        ("a", {}, "not supported"),
        ("a.docx", {}, ""),
        ("a.txt", {"output_format": "docx"}, "output_format"),
        ("a.txt", {"target_lang": "TLH"}, "target_lang"),
        ("a.txt", {"source_lang": ""}, "detected"),
        ("=?utf-8?B?w5xi!?=", {}, "is not Base64 of UTF-8"),
        ("=?utf-8?B?/w==?=", {}, "is not Base64 of UTF-8"),
    ],
)
async def test_a_document_that_cannot_be_translated_is_refused_at_once(
    client: httpx.AsyncClient, name: str, fields: dict[str, str], problem: str
) -> None:
    assert problem in await refused(uploaded(client, name, "語".encode(), **fields))


@pytest.mark.parametrize("files", [{}, {"other": ("a.txt", b"x")}])
async def test_a_form_without_a_file_is_refused(
    client: httpx.AsyncClient, files: dict[str, Any]
) -> None:
    assert "'file'" in await refused(client.post("/v2/document", data=FIELDS, files=files))


async def test_the_language_of_a_document_is_detected(client: httpx.AsyncClient) -> None:
    content = b"Das ist ein deutscher Satz.\nOK\n42\n"
    handle = (await uploaded(client, content=content, source_lang="")).json()
    assert (await ended(client, handle))["status"] == "done"
    assert (await fetched(client, handle)).text.startswith("DAS IST EIN DEUTSCHER SATZ.")


async def test_glossaries_are_applied_to_documents(client: httpx.AsyncClient) -> None:
    glossary = {
        "name": "g",
        "source_lang": "DE",
        "target_lang": "EN",
        "entries": "welt\tPLANET",
        "entries_format": "tsv",
    }
    made = (await client.post("/v2/glossaries", json=glossary)).json()["glossary_id"]
    for name in ("glossary_id", "glossary_ids"):
        handle = (await uploaded(client, **{name: made})).json()
        await ended(client, handle)
        assert "PLANET" in (await fetched(client, handle)).text


async def test_documents_can_be_switched_off(settings: Settings) -> None:
    async with connected(settings, documents=False) as client:
        assert "not translated on this server" in await refused(uploaded(client))


@pytest.mark.parametrize("source", ["EN", None])
async def test_document_in_the_target_language_ends_with_an_error(
    client: httpx.AsyncClient, source: str | None
) -> None:
    text = b"This is a small house in the mountains."
    fields = {"target_lang": "EN-US"} | ({"source_lang": source} if source else {})
    sent = await client.post("/v2/document", data=fields, files={"file": ("a.txt", text)})
    status = await ended(client, sent.json())
    assert (status["status"], status["error_message"]) == (
        "error",
        "Source and target language are equal.",
    )
    assert (await client.get("/v2/usage")).json()["document_count"] == 0


async def test_head_of_a_result_does_not_consume_it(client: httpx.AsyncClient) -> None:
    handle = (await uploaded(client)).json()
    await ended(client, handle)
    path = f"/v2/document/{handle['document_id']}/result"
    head = await client.head(path, params={"document_key": handle["document_key"]})
    assert (head.status_code, head.content) == (200, b"")
    assert (await fetched(client, handle)).text == "HALLO WELT"
