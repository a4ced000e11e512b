"""Every route that takes an identifier, with identifiers of another key and of another kind."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import answered, parts_of
from tests.api.deepl.test_memories import PATH as MEMORIES
from tests.api.deepl.test_memories import imported, tmx
from tests.api.test_documents import ended, uploaded
from tests.support.asgi import connected
from tests.support.fronts import owning, worker_of
from tests.support.keys import add_key

ANN, BOB, NONE = ({"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}, {})
PAIR = {"source_lang": "de", "target_lang": "en"}
ENTRIES = PAIR | {"entries": "a\tB", "entries_format": "tsv"}
TRANSLATED = PAIR | {"text": ["a"]}
FILE = {"file": ("a.txt", b"a")}
# Routes that change or remove something come after those that need it.
REQUESTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("GET", "/translations/{translation}", {}),
    ("GET", "/translations/{translation}/attention", {}),
    ("GET", "/translations/{translation}/alignment", {}),
    ("GET", "/translations/{translation}/search", {}),
    ("POST", "/v2/translate", {"json": TRANSLATED | {"glossary_id": "{glossary}"}}),
    ("POST", "/v2/translate", {"json": TRANSLATED | {"glossary_ids": ["{glossary}"]}}),
    ("POST", "/v2/translate", {"data": TRANSLATED | {"glossary_id": "{glossary}"}}),
    ("GET", "/v2/translate?text=a&source_lang=de&target_lang=en&glossary_id={glossary}", {}),
    ("POST", "/v2/translate", {"json": TRANSLATED | {"translation_memory_id": "{memory}"}}),
    ("POST", "/v2/document", {"data": PAIR | {"glossary_id": "{glossary}"}, "files": FILE}),
    ("POST", "/v2/document", {"data": PAIR | {"glossary_ids": "{glossary}"}, "files": FILE}),
    ("GET", "/v2/document/{document}?document_key={document_key}", {}),
    ("POST", "/v2/document/{document}", {"json": {"document_key": "{document_key}"}}),
    ("GET", "/v2/document/{document}/result?document_key={document_key}", {}),
    ("POST", "/v2/document/{other_document}/result", {"json": {"document_key": "{other_key}"}}),
    ("GET", "/v2/glossaries/{glossary}", {}),
    ("GET", "/v2/glossaries/{glossary}/entries", {}),
    ("GET", "/v3/glossaries/{glossary}", {}),
    ("GET", "/v3/glossaries/{glossary}/entries", {}),
    ("PATCH", "/v3/glossaries/{glossary}", {"json": {"name": "n", "dictionaries": [ENTRIES]}}),
    ("PUT", "/v3/glossaries/{glossary}/dictionaries", {"json": ENTRIES}),
    ("DELETE", "/v3/glossaries/{glossary}/dictionaries?source_lang=de&target_lang=en", {}),
    ("DELETE", "/v3/glossaries/{glossary}", {}),
    ("DELETE", "/v2/glossaries/{other_glossary}", {}),
    ("GET", f"{MEMORIES}/jobs/{{job}}", {}),
    ("GET", f"{MEMORIES}/{{memory}}", {}),
    ("GET", f"{MEMORIES}/{{memory}}/segments", {}),
    ("POST", f"{MEMORIES}/{{memory}}/export", {}),
    ("DELETE", f"{MEMORIES}/{{memory}}", {}),
)
LINKS = (
    ("GET", "/download_file/{file}", {}),
    ("GET", f"{MEMORIES}/download?job={{exported}}", {}),
    ("PUT", f"{MEMORIES}/upload?job={{imported}}", {"content": tmx(("a", "b"))}),
)
"""Addresses that need no key: their identifiers are in no list, status or log."""
VARYING = {"x-request-id", "x-total-time", "content-length", "date"}


@asynccontextmanager
async def one_process(settings: Settings, _: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with connected(settings, api_keys="required") as client:
        yield client


@asynccontextmanager
async def behind_a_worker(settings: Settings, path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = settings.model_copy(update={"api_keys": "required"})
    async with owning(settings, path), worker_of(settings, path) as (_, client):
        yield client


async def made(client: httpx.AsyncClient) -> dict[str, str]:
    """Identifiers of what the key ``ann`` has made, by their names in ``REQUESTS``."""
    client.headers = httpx.Headers(ANN)
    body = {"q": "a", "source": "de", "target": "en"}
    kept = await answered(client.post("/translate", json=body | {"attention": True}))
    file = await answered(client.post("/translate_file", data=body, files=FILE))
    named = ENTRIES | {"name": "n"}
    glossaries = [(await client.post("/v2/glossaries", json=named)).json() for _ in range(2)]
    handles = [await answered(uploaded(client)) for _ in range(2)]
    for handle in handles:
        await ended(client, handle)
    memory = (await imported(client, tmx(("a", "b")), **ANN))["translation_memory_id"]
    job = (await client.post(f"{MEMORIES}/{memory}/export")).json()["job_id"]
    (status,) = (await answered(client.get(f"{MEMORIES}/jobs/{job}")))["results"]
    described = {"source_file": {"file_name": "a.tmx", "content_length": 1000}}
    begun = (await client.post(f"{MEMORIES}/import", json=described)).json()
    client.headers = httpx.Headers()
    return {
        "translation": kept["id"],
        "file": file["translatedFileUrl"].rpartition("/")[2],
        "glossary": glossaries[0]["glossary_id"],
        "other_glossary": glossaries[1]["glossary_id"],
        "document": handles[0]["document_id"],
        "document_key": handles[0]["document_key"],
        "other_document": handles[1]["document_id"],
        "other_key": handles[1]["document_key"],
        "memory": memory,
        "job": job,
        "exported": status["download_url"].rpartition("=")[2],
        "imported": begun["upload_url"].rpartition("=")[2],
    }


def filled(sent: Any, identifiers: Mapping[str, str]) -> Any:
    """A request's path or arguments with identifiers in place of their names."""
    if isinstance(sent, str):
        return re.sub(r"\{(\w+)\}", lambda name: identifiers[name[1]], sent)
    if isinstance(sent, dict):
        return {name: filled(value, identifiers) for name, value in sent.items()}
    return [filled(each, identifiers) for each in sent] if isinstance(sent, list) else sent


def unknown(identifiers: Mapping[str, str]) -> dict[str, str]:
    """Identifiers of the same form that no object has."""
    number = uuid.uuid4()
    shapes = {32: number.hex, 36: str(number), 43: number.hex + "a" * 11, 64: number.hex * 2}
    return {
        name: re.sub(r"^[\w-]+", lambda it: shapes[len(it[0])], identifier)
        for name, identifier in identifiers.items()
    }


async def shown(
    client: httpx.AsyncClient,
    request: tuple[str, str, dict[str, Any]],
    identifiers: Mapping[str, str],
    key: Mapping[str, str],
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of an answer, without identifiers."""
    method, path, arguments = request
    response = await client.request(
        method, filled(path, identifiers), headers=key, **filled(arguments, identifiers)
    )
    # Messages show an identifier in its usual spelling, or the beginning of a long one.
    text = re.sub(r"[\w-]{32,}", "", response.text)
    headers = {name: it for name, it in response.headers.items() if name not in VARYING}
    return response.status_code, text, headers


@pytest.mark.parametrize("serving", [one_process, behind_a_worker])
async def test_identifier_of_another_key_is_answered_as_an_unknown_one(
    settings: Settings, tmp_path: Path, serving: Any
) -> None:
    for name in ("ann", "bob"):
        await add_key(settings.state, name, name)
    async with serving(settings, tmp_path / "owner") as client:
        identifiers = await made(client)
        for request in LINKS:
            assert (await shown(client, request, unknown(identifiers), BOB))[0] == 404
            assert (await shown(client, request, identifiers, NONE))[0] == 200, request
        for request in REQUESTS:
            for key in (BOB, NONE):
                strange = await shown(client, request, unknown(identifiers), key)
                assert await shown(client, request, identifiers, key) == strange, request
                assert strange[0] == (404 if key else 403 if "/v" in request[1] else 400), request
            assert (await shown(client, request, identifiers, ANN))[0] < 300, request
        for path in ("/v2/glossaries", "/v3/glossaries", MEMORIES):
            lists = (await answered(client.get(path, headers=BOB))).values()
            assert all(listed in ([], 0) for listed in lists)


async def test_identifier_of_one_kind_is_unknown_to_the_routes_of_every_other(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    await add_key(settings.state, "ann", "ann")
    caplog.set_level("DEBUG", "service.access")
    async with connected(settings, api_keys="required") as client:
        identifiers = await made(client)
        for request in (*REQUESTS, *LINKS):
            own = set(re.findall(r"\{(\w+)\}", json.dumps(request[:2]) + str(request[2])))
            for kind, identifier in identifiers.items():
                # Both glossaries and both documents are of one kind.
                if own & {kind, kind.removeprefix("other_"), f"other_{kind}"}:
                    continue
                other = dict.fromkeys(identifiers, identifier)
                expected = (await shown(client, request, unknown(other), ANN))[:2]
                assert (await shown(client, request, other, ANN))[:2] == expected, (request, kind)
        for identifier in identifiers.values():
            path = f"/translations/{identifier}/no-such-view"
            assert (await client.get(path, headers=ANN)).status_code == 404
            assert (await client.delete(path.rpartition("/")[0])).status_code == 405
    assert "no-such-view" in caplog.text
    assert not [name for name, each in identifiers.items() if each.split(".")[0] in caplog.text]


async def test_every_route_with_an_identifier_is_tried_here(client: httpx.AsyncClient) -> None:
    document = await answered(client.get("/openapi.json"))
    schemas = document["components"]["schemas"]
    taking: set[tuple[str, str]] = set()
    for path, operations in document["paths"].items():
        if path.startswith("/admin/"):
            # Names of keys are no secrets, and only the operator's key may ask for any of them.
            continue
        for method, operation in operations.items():
            fields = {each["name"] for each in operation.get("parameters", ())}
            for part in parts_of(operation.get("requestBody", {})):
                resolved = schemas.get(part.get("$ref", "").rpartition("/")[2], part)
                fields |= set(resolved.get("properties", {}))
            if "{" in path or any(re.search(r"(_ids?|^id|^job)$", name) for name in fields):
                taking.add((method.upper(), re.sub(r"\{.*?\}", "{}", path)))
    tried = {
        (method, re.sub(r"\{.*?\}", "{}", path.partition("?")[0]))
        for method, path, _ in (*REQUESTS, *LINKS)
    }
    assert tried == taking
