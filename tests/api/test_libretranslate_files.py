from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from service.bootstrap import running
from service.documents import open_document
from service.settings import Settings
from tests.api.answers import DE_EN, answered, refused
from tests.documents.test_every_format import FILES, HOSTILE, hostile
from tests.support.asgi import client_of, connected
from tests.support.shouting import load_shouting

DEEPL_DE_EN = {"source_lang": "DE", "target_lang": "EN-US"}
TEXT = "eins ist da.\r\n\r\n  zwei ist da.\n"


async def test_a_file_is_translated_and_fetched(client: httpx.AsyncClient) -> None:
    files = {"file": ("Über uns.txt", TEXT.encode(), "text/plain")}
    answer = await answered(client.post("/translate_file", files=files, data=DE_EN))
    (address,) = answer.values()
    assert address.startswith("http://test/download_file/")
    assert address.endswith(".txt")
    fetched = await client.get(address)
    assert fetched.content.decode() == TEXT.upper()
    assert fetched.headers["content-disposition"].startswith("attachment")
    assert fetched.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        ("größe".encode(), "text/plain; charset=utf-8"),
        ("\ufeffgröße".encode(), "text/plain; charset=utf-8"),
        ("größe".encode("cp1252"), "text/plain"),
        ("größe".encode("utf-16"), "text/plain"),
        ("das ist lang".encode("utf-16-le"), "text/plain"),
    ],
)
async def test_charset_is_sent_of_utf_8_alone(
    client: httpx.AsyncClient, content: bytes, content_type: str
) -> None:
    files = {"file": ("a.txt", content)}
    answer = await answered(client.post("/translate_file", files=files, data=DE_EN))
    fetched = await client.get(answer["translatedFileUrl"])
    assert fetched.headers["content-type"] == content_type
    handle = (await client.post("/v2/document", files=files, data=DEEPL_DE_EN)).json()
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    while (await client.post(path, data=key)).json()["status"] != "done":
        await asyncio.sleep(0.01)
    result = await client.post(f"{path}/result", data=key)
    assert result.headers["content-type"] == content_type


@pytest.mark.parametrize("extension", [".vtt", ".pptx", ".xlsx", ".odt", ".ods", ".odp", ".epub"])
async def test_a_file_of_any_format_is_translated_through_both_apis(
    client: httpx.AsyncClient, extension: str
) -> None:
    name, content = "a" + extension, FILES[extension]
    files = {"file": (name, content)}
    answer = await answered(client.post("/translate_file", files=files, data=DE_EN))
    translated = (await client.get(answer["translatedFileUrl"])).content
    before, after = (open_document(name, each).texts for each in (content, translated))
    assert [text.text.upper() for text in after] == [text.text.upper() for text in before]
    assert any(text.text.isupper() for text in after)
    handle = (await client.post("/v2/document", files=files, data=DEEPL_DE_EN)).json()
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    async with asyncio.timeout(30):
        while (await client.post(path, json=key)).json()["status"] != "done":
            await asyncio.sleep(0.005)
    assert (
        open_document(name, (await client.post(f"{path}/result", json=key)).content).texts == after
    )


async def test_hostile_files_are_refused_with_the_reason_by_both_apis(
    client: httpx.AsyncClient,
) -> None:
    for extension, kind in HOSTILE:
        content, reason = hostile(extension)[kind]
        files = {"file": ("a" + extension, content)}
        assert reason in await refused(client.post("/translate_file", files=files, data=DE_EN))
        assert reason in await refused(client.post("/v2/document", files=files, data=DEEPL_DE_EN))


async def test_language_of_a_file_is_detected(client: httpx.AsyncClient) -> None:
    files = {"file": ("a.html", b"<p>Das ist ein sehr <b>sch&ouml;ner</b> Tag.</p>")}
    asked = {"source": "auto", "target": "en"}
    response = await client.post("/translate_file", files=files, data=asked)
    fetched = await client.get(response.json()["translatedFileUrl"])
    assert fetched.text.startswith("<p>DAS IST EIN SEHR <b>")


@pytest.mark.parametrize(
    ("files", "fields", "error"),
    [
        ({}, DE_EN, "Invalid request: missing file parameter"),
        ({"other": ("a.txt", b"a")}, DE_EN, "Invalid request: missing file parameter"),
        ({"file": ("a.exe", b"a")}, DE_EN, "Invalid request: file format not supported"),
        (
            {"file": ("a", b"a")},
            DE_EN,
            "Invalid request: file format not supported; supported are .txt, .srt,",
        ),
        ({"file": ("a.txt", b"a")}, {"target": "en"}, "Invalid request: missing source parameter"),
        ({"file": ("a.txt", b"a")}, {"source": "de"}, "Invalid request: missing target parameter"),
        ({"file": ("a.txt", b"a")}, {"source": "de", "target": "zz"}, "zz is not supported"),
        ({"file": ("a.txt", b"\x81")}, DE_EN, "byte 0 is not UTF-8 text"),
        (
            {"file": ("a.txt", b"a"), "more": ("b.txt", b"b")},
            DE_EN,
            "Too many files. Maximum number of files is 1",
        ),
    ],
)
async def test_a_file_that_cannot_be_translated_is_refused(
    client: httpx.AsyncClient,
    files: dict[str, tuple[str, bytes]],
    fields: dict[str, str],
    error: str,
) -> None:
    message = await refused(client.post("/translate_file", files=files, data=fields))
    assert message.startswith(error)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("nothing.txt", 404),
        ("%2E%2E%2Fsettings.py", 400),
        ("..%2F..%2Fetc%2Fpasswd", 400),
        ("..%5Cboot.ini", 400),
        ("a%00b", 404),
        ("%FF", 404),
    ],
)
async def test_only_translated_files_can_be_fetched(
    client: httpx.AsyncClient, name: str, status: int
) -> None:
    await refused(client.get(f"/download_file/{name}"), status)


async def test_files_may_be_switched_off(settings: Settings) -> None:
    async with connected(settings, documents=False) as client:
        posted = client.post("/translate_file", files={"file": ("a.txt", b"a")}, data=DE_EN)
        for asked in (posted, client.get("/download_file/a.txt")):
            assert await refused(asked, 403) == "files translation is disabled on this server"
        shown = (await client.get("/frontend/settings")).json()
    assert (shown["filesTranslation"], shown["supportedFilesFormat"]) == (False, [])


async def test_a_document_may_be_larger_than_other_bodies(client: httpx.AsyncClient) -> None:
    text = b"ja." + b"\n" * 70_000  # The settings of these tests allow a body 64 KiB.
    answer = await client.post("/translate_file", files={"file": ("gross.txt", text)}, data=DE_EN)
    assert answer.status_code == 200
    answer = await client.post("/translate", data={"q": text.decode(), **DE_EN})
    assert answer.status_code == 413


@pytest.mark.parametrize("host", ["evil.example/path?", "a b", "", "x@y", "h:99999999"])
async def test_host_that_is_no_name_is_refused(client: httpx.AsyncClient, host: str) -> None:
    files = {"file": ("a.txt", b"eins")}
    asked = client.post("/translate_file", files=files, data=DE_EN, headers={"host": host})
    assert "Host" in await refused(asked)


async def test_public_address_replaces_the_host_of_the_request(settings: Settings) -> None:
    settings = settings.model_copy(update={"public_url": "https://mt.example/below/"})
    async with (
        running(settings, load_shouting) as service,
        client_of(service.app, "http://evil") as client,
    ):
        files = {"file": ("a.txt", b"eins")}
        answer = await client.post("/translate_file", files=files, data=DE_EN)
    assert answer.json()["translatedFileUrl"].startswith("https://mt.example/below/download_file/")


async def test_file_done_while_draining_returns_503_and_is_not_charged(settings: Settings) -> None:
    async with running(settings, load_shouting) as service, client_of(service.app) as client:
        translate = service.translator.translate

        async def draining(*arguments: Any, **options: Any) -> Any:
            service.drain.begin()
            return await translate(*arguments, **options)

        service.translator.translate = draining  # type: ignore[method-assign]
        files = {"file": ("a.txt", b"eins ist da.")}
        response = await client.post("/translate_file", files=files, data=DE_EN)
        assert response.status_code == 503
        assert response.headers["retry-after"]
        service.drain.begun = False
        usage = (await client.get("/v2/usage")).json()
        assert (usage["character_count"], usage["document_count"]) == (0, 0)
