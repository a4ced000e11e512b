"""Files in both dialects: ``/translate_file`` and ``/v2/document``, and their downloads."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import select

from service.bootstrap import running
from service.document_jobs.jobs import DocumentJobs
from service.documents import open_document
from service.settings import Settings
from service.state.database import Database
from service.state.schema import CONTENTS, DOCUMENTS
from tests.api.answers import DE_EN, answered, refused
from tests.documents.test_every_format import FILES, HOSTILE, hostile
from tests.support.asgi import client_of, connected
from tests.support.toy import load_shouting

DEEPL_DE_EN = {"source_lang": "DE", "target_lang": "EN-US"}
TEXT = "eins ist da.\r\n\r\n  zwei ist da.\n"


async def translated(
    client: httpx.AsyncClient, name: str, content: bytes, **fields: str
) -> httpx.Response:
    """The download of a file that LibreTranslate's route has translated."""
    asked = client.post("/translate_file", files={"file": (name, content)}, data=DE_EN | fields)
    return await client.get((await answered(asked))["translatedFileUrl"])


async def uploaded(
    client: httpx.AsyncClient, name: str = "a.txt", content: bytes = b"hallo welt", **fields: Any
) -> httpx.Response:
    files = {"file": (name, content)}
    return await client.post("/v2/document", data=DEEPL_DE_EN | fields, files=files)


async def ended(client: httpx.AsyncClient, handle: dict[str, str]) -> dict[str, Any]:
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    async with asyncio.timeout(30):
        while True:
            status: dict[str, Any] = (await client.post(path, json=key)).json()
            if status["status"] not in ("queued", "translating"):
                return status
            await asyncio.sleep(0.005)


async def result(client: httpx.AsyncClient, handle: dict[str, str]) -> httpx.Response:
    path = f"/v2/document/{handle['document_id']}/result"
    return await client.post(path, json={"document_key": handle["document_key"]})


async def finished(client: httpx.AsyncClient, *document: Any, **fields: Any) -> httpx.Response:
    """The result of a document that DeepL's route has translated."""
    handle = await answered(uploaded(client, *document, **fields))
    status = await ended(client, handle)
    assert status["status"] == "done", status
    return await result(client, handle)


# One service for all: each starts a helper process.
FILES_AND_TRANSLATIONS: list[tuple[str, bytes, bytes | None, str]] = [
    ("Über uns.txt", TEXT.encode(), TEXT.upper().encode(), "text/plain; charset=utf-8"),
    ("a.txt", "\ufeffgröße".encode(), "\ufeffGRößE".encode(), "text/plain; charset=utf-8"),
    ("a.txt", "größe".encode("cp1252"), "GRößE".encode("cp1252"), "text/plain"),
    ("a.txt", "größe".encode("utf-16"), "GRößE".encode("utf-16"), "text/plain"),
    (
        "a.txt",
        "das ist lang".encode("utf-16-le"),
        "DAS IST LANG".encode("utf-16-le"),
        "text/plain",
    ),
    ("a.html", b"<p>hallo <b>welt</b></p>", b"<p>HALLO <b>WELT</b></p>", ""),
    ("A.MD", b"# hallo\n\nund mehr\n", b"# HALLO\n\nUND MEHR\n", ""),
    ("a.json", b'{"eins": "zwei"}', b'{"eins": "ZWEI"}', "application/json"),
    (
        "strings.xml",
        b'<resources><string name="a">eins</string></resources>',
        b'<resources><string name="a">EINS</string></resources>',
        "application/xml",
    ),
    ("leer.txt", b"", b"", "text/plain; charset=utf-8"),
    *((f"a{each}", FILES[each], None, "") for each in (".vtt", ".pptx", ".ods", ".epub")),
]


async def test_files_are_translated_alike_by_both_apis(client: httpx.AsyncClient) -> None:
    for name, content, expected, media_type in FILES_AND_TRANSLATIONS:
        answers = [await translated(client, name, content), await finished(client, name, content)]
        for each in answers:
            assert each.headers["content-disposition"].startswith("attachment"), name
            assert media_type in ("", each.headers["content-type"]), name
        one, other = (answer.content for answer in answers)
        if expected is not None:
            assert one == other == expected
            continue
        texts = [text.text for text in open_document(name, content).texts]
        assert [text.text.upper() for text in open_document(name, one).texts] == [
            text.upper() for text in texts
        ]
        assert open_document(name, one).texts == open_document(name, other).texts
        assert any(text.text.isupper() for text in open_document(name, one).texts)


async def test_hostile_files_are_refused_with_the_reason_by_both_apis(
    client: httpx.AsyncClient,
) -> None:
    # The last kind of each extension; tests/documents has all of them.
    for extension, kind in dict(HOSTILE).items():
        # Files are made in a thread, because the loop's time is measured.
        content, reason = (await asyncio.to_thread(hostile, extension))[kind]
        files = {"file": ("a" + extension, content)}
        assert reason in await refused(client.post("/translate_file", files=files, data=DE_EN))
        assert reason in await refused(uploaded(client, "a" + extension, content))


async def test_language_of_a_file_is_detected(client: httpx.AsyncClient) -> None:
    content = b"<p>Das ist ein sehr <b>sch&ouml;ner</b> Tag.</p>"
    found = await translated(client, "a.html", content, source="auto")
    assert found.text.startswith("<p>DAS IST EIN SEHR <b>")
    lines = b"Das ist ein deutscher Satz.\nOK\n42\n"
    found = await finished(client, "a.txt", lines, source_lang="")
    assert found.text.startswith("DAS IST EIN DEUTSCHER SATZ.")


@pytest.mark.parametrize("target", ["DE", "EN"])
async def test_document_without_letters_is_returned_unchanged(
    client: httpx.AsyncClient, target: str
) -> None:
    for content in (b"12345\n", b""):
        found = await finished(client, "a.txt", content, source_lang="", target_lang=target)
        assert found.content == content


async def test_translation_has_the_name_and_type_of_its_document(client: httpx.AsyncClient) -> None:
    headers = (await finished(client, r"C:\docs\..\Brief an X.TXT", b"hallo")).headers
    assert headers["content-type"].startswith("text/plain")
    assert "Brief%20an%20X.txt" in headers["content-disposition"]
    assert "docs" not in headers["content-disposition"]


async def test_document_is_charged_for_its_text_without_markup(client: httpx.AsyncClient) -> None:
    handle = (await uploaded(client, "a.html", b"<p>hallo</p>")).json()
    assert (await ended(client, handle))["billed_characters"] == 5
    usage = (await client.get("/v2/usage")).json()
    assert (usage["character_count"], usage["document_count"]) == (5, 1)


async def test_result_is_removed_when_it_has_been_sent_and_not_by_head(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    handle = (await uploaded(client)).json()
    await ended(client, handle)
    path = f"/v2/document/{handle['document_id']}/result"
    head = await client.head(path, params={"document_key": handle["document_key"]})
    assert (head.status_code, head.content) == (200, b"")
    assert (await result(client, handle)).text == "HALLO WELT"
    assert (await result(client, handle)).status_code == 404
    async with Database.at(settings.state) as database:
        for table in (DOCUMENTS, CONTENTS):
            statement = select(table)
            assert not await database.read(lambda c, s=statement: c.execute(s).all())


@pytest.mark.parametrize("action", ["", "/result"])
async def test_document_with_wrong_or_missing_key_is_refused(
    client: httpx.AsyncClient, action: str
) -> None:
    handle = (await uploaded(client)).json()
    await ended(client, handle)
    path = f"/v2/document/{handle['document_id']}{action}"
    for wrong in ("guess", "\u00e9\u4e2d"):
        await refused(client.post(path, json={"document_key": wrong}), 404)
    await refused(client.post(path), 400)
    assert (await client.get(path, params=handle)).status_code == 200


async def test_ids_with_nul_are_not_found(settings: Settings, postgres_address: SecretStr) -> None:
    async with Database(postgres_address, upgrade=True):
        pass
    async with connected(settings, state=postgres_address) as client:
        for path in ("/download_file/%00", "/v2/document/%00?document_key=a"):
            await refused(client.get(path), 404)


async def test_upload_beyond_the_rate_limit_is_refused_unread(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(settings, requests_per_minute=2) as client:
        asked: Any = {"files": {"file": ("a.txt", b"a")}, "data": DE_EN | DEEPL_DE_EN}
        paths = ("/translate_file", "/v2/document")
        for path in paths:
            await answered(client.post(path, **asked))
        for method in ("accept", "translate"):
            monkeypatch.setattr(DocumentJobs, method, None)
        for path in paths:
            await refused(client.post(path, **asked), 429)


async def test_glossaries_are_applied_to_documents(client: httpx.AsyncClient) -> None:
    entries = {"entries": "welt\tPLANET", "entries_format": "tsv"}
    made = await client.post(
        "/v2/glossaries", json={"name": "g", "source_lang": "DE", "target_lang": "EN", **entries}
    )
    for name in ("glossary_id", "glossary_ids"):
        assert "PLANET" in (await finished(client, **{name: made.json()["glossary_id"]})).text


@pytest.mark.parametrize("source", ["EN", ""])
async def test_document_in_the_target_language_ends_with_an_error(
    client: httpx.AsyncClient, source: str
) -> None:
    text = b"This is a small house in the mountains."
    status = await ended(client, (await uploaded(client, "a.txt", text, source_lang=source)).json())
    assert status["status"] == "error"
    assert status["error_message"] == "Source and target language are equal."
    assert (await client.get("/v2/usage")).json()["document_count"] == 0


async def test_files_may_be_switched_off(settings: Settings) -> None:
    async with connected(settings, documents=False) as client:
        assert "not translated on this server" in await refused(uploaded(client))
        posted = client.post("/translate_file", files={"file": ("a.txt", b"a")}, data=DE_EN)
        for asked in (posted, client.get("/download_file/a.txt")):
            assert await refused(asked, 403) == "files translation is disabled on this server"
        shown = (await client.get("/frontend/settings")).json()
    assert (shown["filesTranslation"], shown["supportedFilesFormat"]) == (False, [])


async def test_a_document_may_be_larger_than_other_bodies(client: httpx.AsyncClient) -> None:
    text = b"ja." + b"\n" * 70_000  # The settings of these tests allow a body 64 KiB.
    assert (await translated(client, "gross.txt", text)).status_code == 200
    answer = await client.post("/translate", data={"q": text.decode(), **DE_EN})
    assert answer.status_code == 413


async def test_public_address_replaces_the_host_of_the_request(settings: Settings) -> None:
    settings = settings.model_copy(update={"public_url": "https://mt.example/below/"})
    async with (
        running(settings, load_shouting) as service,
        client_of(service.app, "http://evil") as client,
    ):
        files = {"file": ("a.txt", b"eins")}
        answer = await client.post("/translate_file", files=files, data=DE_EN)
        search = (await client.get("/opensearch.xml")).text
        document = (await client.get("/openapi.json")).json()
    assert answer.json()["translatedFileUrl"].startswith("https://mt.example/below/download_file/")
    assert 'template="https://mt.example/below/?text={searchTerms}"' in search
    assert document["servers"] == [{"url": "/below"}]


RANGES: list[tuple[dict[str, str], int, bytes]] = [
    ({"range": "bytes=2-4"}, 206, b"LLO"),
    ({"range": "bytes=6-"}, 206, b"WELT"),
    ({"range": "bytes=6-99"}, 206, b"WELT"),
    ({"range": "bytes=-4"}, 206, b"WELT"),
    ({"range": "bytes=-99"}, 206, b"HALLO WELT"),
    ({"range": "bytes=10-"}, 416, b""),
    ({"range": "bytes=-0"}, 416, b""),
    ({"range": "bytes=4-2"}, 200, b"HALLO WELT"),
    ({"range": "bytes=0-1,3-4"}, 200, b"HALLO WELT"),
    ({"range": "bytes=-"}, 200, b"HALLO WELT"),
    ({"range": "bytes=2-4", "if-range": '"a"'}, 200, b"HALLO WELT"),
]


async def test_ranges_of_a_translated_file(client: httpx.AsyncClient) -> None:
    form = {"source": "de", "target": "en"}
    files = {"file": ("a.txt", b"hallo welt")}
    for asked, status, expected in RANGES:
        made = (await client.post("/translate_file", data=form, files=files)).json()
        answer = await client.get(made["translatedFileUrl"], headers=asked)
        assert (answer.status_code, answer.content) == (status, expected), asked
        assert answer.headers["accept-ranges"] == "bytes"
        place = 10 - len(expected) if asked["range"] != "bytes=2-4" else 2
        ranges = {206: f"bytes {place}-{place + len(expected) - 1}/10", 416: "bytes */10"}
        assert answer.headers.get("content-range") == ranges.get(status), asked


async def test_file_done_while_draining_is_kept_for_the_next_process(settings: Settings) -> None:
    async with running(settings, load_shouting) as service, client_of(service.app) as client:
        translate = service.translator.translate

        async def draining(*arguments: Any, **options: Any) -> Any:
            service.drain.begin()
            return await translate(*arguments, **options)

        service.translator.translate = draining  # type: ignore[method-assign]
        files = {"file": ("a.txt", b"eins ist da.")}
        address = await answered(client.post("/translate_file", files=files, data=DE_EN))
    async with running(settings, load_shouting) as service, client_of(service.app) as client:
        assert (await client.get(address["translatedFileUrl"])).text == "EINS IST DA."
        usage = (await client.get("/v2/usage")).json()
        assert (usage["character_count"], usage["document_count"]) == (12, 1)


async def test_access_log_names_the_route_and_no_id(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "service.access")
    response = await translated(client, "a.txt", b"hallo")
    assert response.status_code == 200
    name = str(response.url).rsplit("/", 1)[1]
    assert name.split(".")[0] not in caplog.text
    assert "/download_file/{name" in caplog.text
