"""Tests of glossaries: one pair under ``/v2``, several under ``/v3``, and their application."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.api.answers import answered, refused

PAIR = {"source_lang": "DE", "target_lang": "EN"}
MEADOW = {
    **{"name": "Wiesen", **PAIR, "entries_format": "tsv"},
    "entries": "wiese\tLAWN\ngute nacht\tSLEEP WELL",
}
GERMAN = {"source_lang": "de", "target_lang": "en"}
DICTIONARY = {**GERMAN, "entries": "wiese\tLAWN", "entries_format": "tsv"}
BACK = {"source_lang": "en", "target_lang": "de", "entries": "lawn,RASEN", "entries_format": "csv"}
BOTH = {"name": "both", "dictionaries": [DICTIONARY, BACK]}
MORE = {**PAIR, "entries": "haus\tCOTTAGE", "entries_format": "tsv"}


async def created(client: httpx.AsyncClient, **fields: Any) -> str:
    response = await client.post("/v2/glossaries", json=MEADOW | fields)
    assert response.status_code == 201, response.text
    identifier: str = response.json()["glossary_id"]
    return identifier


async def test_every_change_of_a_glossary_is_audited_without_its_texts(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "service.audit"):
        glossary, path = await made(client, json=BOTH)
        changes = {"name": "renamed", "dictionaries": [DICTIONARY]}
        await answered(client.patch(path, json=changes))
        await answered(client.put(f"{path}/dictionaries", json=DICTIONARY))
        await client.delete(f"{path}/dictionaries", params=GERMAN)
        await client.delete(path)
    lines = [vars(record) for record in caplog.records if record.name == "service.audit"]
    assert {line["glossary"] for line in lines} == {glossary["glossary_id"]}
    assert [line["msg"] for line in lines] == [
        *("glossary created", "glossary renamed", "dictionary extended", "dictionary replaced"),
        *("dictionary deleted", "glossary deleted"),
    ]
    assert "LAWN" not in str(lines)


async def made(client: httpx.AsyncClient, **sent: Any) -> tuple[dict[str, Any], str]:
    """A glossary of several languages, and its path."""
    response = await client.post("/v3/glossaries", **sent)
    assert response.status_code == 201, response.text
    glossary: dict[str, Any] = response.json()
    return glossary, f"/v3/glossaries/{glossary['glossary_id']}"


async def translated(client: httpx.AsyncClient, text: str, **fields: Any) -> str:
    asked = client.post("/v2/translate", json={"text": [text], **PAIR, **fields})
    return str((await answered(asked))["translations"][0]["text"])


async def test_glossary_is_described_listed_and_deleted(client: httpx.AsyncClient) -> None:
    first, second = await created(client), await created(client, name="again")
    answer = await answered(client.get(f"/v2/glossaries/{first}"))
    moment = datetime.strptime(answer.pop("creation_time"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert moment.tzinfo is not None
    described = {"glossary_id": first, "name": "Wiesen", "ready": True, "entry_count": 2}
    assert answer == described | GERMAN

    async def listed() -> list[str]:
        found = await answered(client.get("/v2/glossaries"))
        return [each["glossary_id"] for each in found["glossaries"]]

    assert await listed() == [first, second]
    deleted = await client.delete(f"/v2/glossaries/{first}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    await refused(client.get(f"/v2/glossaries/{first}"), 404)
    assert await listed() == [second]


async def test_entries_are_returned_in_the_requested_format(client: httpx.AsyncClient) -> None:
    path = f"/v2/glossaries/{await created(client)}/entries"
    tsv = await client.get(path, headers={"accept": "text/tab-separated-values"})
    assert tsv.headers["content-type"].startswith("text/tab-separated-values")
    assert tsv.text == MEADOW["entries"]
    csv = await client.get(path, headers={"accept": "text/csv"})
    assert csv.text == "wiese,LAWN\ngute nacht,SLEEP WELL"


async def test_pairs_that_a_glossary_can_have_are_listed(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v2/glossary-language-pairs")).json()["supported_languages"]
    assert GERMAN in answer
    assert {"source_lang": "fr", "target_lang": "de"} not in answer


async def test_glossary_is_applied_and_the_first_of_several_takes_precedence(
    client: httpx.AsyncClient,
) -> None:
    first, second = (
        await created(client),
        await created(client, entries="wiese\tMEADOW\nhaus\tCOTTAGE"),
    )
    assert await translated(client, "die wiese") == "DIE WIESE"
    both = await translated(client, "gute nacht wiese", glossary_id=first)
    assert "SLEEP WELL" in both and "LAWN" in both
    text = await translated(client, "wiese und haus", glossary_ids=[first, second])
    assert "LAWN" in text and "COTTAGE" in text and "MEADOW" not in text


async def test_glossary_that_does_not_match_the_request_is_refused(
    client: httpx.AsyncClient,
) -> None:
    body = {"text": ["wiese"], **PAIR, "glossary_id": await created(client)}
    for fields, problem in (
        ({"source_lang": None}, "source_lang"),
        ({"source_lang": "EN", "target_lang": "DE"}, "no entries from en to de"),
    ):
        assert problem in await refused(client.post("/v2/translate", json=body | fields))


async def test_a_glossary_of_several_languages_is_applied_by_pair(
    client: httpx.AsyncClient,
) -> None:
    identifier = (await made(client, json=BOTH))[0]["glossary_id"]
    assert "LAWN" in await translated(client, "die wiese", glossary_id=identifier)
    back = {"source_lang": "EN", "target_lang": "DE", "glossary_id": identifier}
    assert "RASEN" in await translated(client, "the lawn", **back)
    assert await answered(client.get("/v2/glossaries")) == {"glossaries": []}
    await refused(client.get(f"/v2/glossaries/{identifier}"), 400)


async def test_v3_entries_are_those_of_every_dictionary_in_the_order_they_were_made(
    client: httpx.AsyncClient,
) -> None:
    german = DICTIONARY | {"entries": 'größe\tSIZE "L"\nc:\\neu\tC:\\NEW'}
    back = BACK | {"entries": "lawn\tRASEN", "entries_format": "tsv"}
    for given, expected in (([german, BACK], [german, back]), ([BACK, german], [back, german])):
        glossary, path = await made(client, json={"name": "both", "dictionaries": given})
        response = await client.get(f"{path}/entries")
        assert response.headers["content-type"] == "application/json"
        assert response.json() == {"dictionaries": expected}
        await client.put(f"{path}/dictionaries", json=given[0])
        assert (await client.get(path)).json()["dictionaries"] == glossary["dictionaries"]


async def test_glossary_without_dictionaries_is_made_and_gets_them_later(
    client: httpx.AsyncClient,
) -> None:
    for sent in ({"json": {"name": "x"}}, {"data": {"name": "x"}}):
        glossary, path = await made(client, **sent)
        assert glossary["dictionaries"] == []
        assert await answered(client.get(path)) == glossary
        assert await answered(client.get(f"{path}/entries")) == {"dictionaries": []}
        assert await answered(client.get("/v2/glossaries")) == {"glossaries": []}
        assert (await client.put(f"{path}/dictionaries", json=DICTIONARY)).status_code == 200
        assert len((await client.get(path)).json()["dictionaries"]) == 1
        await client.delete(path)
