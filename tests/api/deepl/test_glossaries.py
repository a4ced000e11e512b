"""Tests of glossaries: one pair under ``/v2``, several under ``/v3``, and their application."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx
import pytest

from service.settings import Settings
from service.state.keys import KeyStore
from tests.api.answers import answered, refused
from tests.api.deepl.conftest import authorised
from tests.support.asgi import connected

MEADOW = {
    "name": "Wiesen",
    "source_lang": "DE",
    "target_lang": "EN",
    "entries": "wiese\tLAWN\ngute nacht\tSLEEP WELL",
    "entries_format": "tsv",
}
GERMAN = {"source_lang": "de", "target_lang": "en"}
DICTIONARY = {**GERMAN, "entries": "wiese\tLAWN", "entries_format": "tsv"}
BACK = {"source_lang": "en", "target_lang": "de", "entries": "lawn,RASEN", "entries_format": "csv"}
BOTH = {"name": "both", "dictionaries": [DICTIONARY, BACK]}
MORE = {
    "source_lang": "DE",
    "target_lang": "EN",
    "entries": "haus\tCOTTAGE",
    "entries_format": "tsv",
}


async def created(client: httpx.AsyncClient, **fields: Any) -> str:
    response = await client.post("/v2/glossaries", json=MEADOW | fields)
    assert response.status_code == 201, response.text
    identifier: str = response.json()["glossary_id"]
    return identifier


async def made(client: httpx.AsyncClient, **sent: Any) -> tuple[dict[str, Any], str]:
    """A glossary of several languages, and its path."""
    response = await client.post("/v3/glossaries", **sent)
    assert response.status_code == 201, response.text
    glossary: dict[str, Any] = response.json()
    return glossary, f"/v3/glossaries/{glossary['glossary_id']}"


async def translated(client: httpx.AsyncClient, text: str, **fields: Any) -> str:
    body = {"text": [text], "source_lang": "DE", "target_lang": "EN-US"} | fields
    found: str = (await answered(client.post("/v2/translate", json=body)))["translations"][0][
        "text"
    ]
    return found


async def test_glossary_has_the_fields_that_the_client_reads(client: httpx.AsyncClient) -> None:
    identifier = await created(client)
    answer = (await client.get(f"/v2/glossaries/{identifier}")).json()
    moment = datetime.strptime(answer.pop("creation_time"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert moment.tzinfo is not None
    assert answer == {
        "glossary_id": identifier,
        "name": "Wiesen",
        "ready": True,
        "source_lang": "de",
        "target_lang": "en",
        "entry_count": 2,
    }


async def test_glossaries_are_listed_until_they_are_deleted(client: httpx.AsyncClient) -> None:
    first, second = await created(client), await created(client, name="again")
    listed = (await client.get("/v2/glossaries")).json()["glossaries"]
    assert [each["glossary_id"] for each in listed] == [first, second]
    deleted = await client.delete(f"/v2/glossaries/{first}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await client.get(f"/v2/glossaries/{first}")).status_code == 404
    listed = (await client.get("/v2/glossaries")).json()["glossaries"]
    assert [each["glossary_id"] for each in listed] == [second]


async def test_entries_are_returned_in_the_requested_format(client: httpx.AsyncClient) -> None:
    path = f"/v2/glossaries/{await created(client)}/entries"
    tsv = await client.get(path, headers={"accept": "text/tab-separated-values"})
    assert tsv.headers["content-type"].startswith("text/tab-separated-values")
    assert tsv.text == MEADOW["entries"]
    csv = await client.get(path, headers={"accept": "text/csv"})
    assert csv.text == "wiese,LAWN\ngute nacht,SLEEP WELL"


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        *(
            ("/v2/glossaries", MEADOW | fields, problem)
            for fields, problem in (
                ({"entries": ""}, "'entries' not specified"),
                ({"entries": "\n"}, "at least one entry"),
                ({"entries": "one\ttwo\tthree"}, "line 1"),
                ({"entries": "a\tb\na\tc"}, "line 2"),
                ({"entries_format": "xml"}, "entries_format"),
                ({"name": ""}, "name"),
                ({"source_lang": "TLH"}, "source_lang"),
                (
                    {"source_lang": "FR", "target_lang": "DE"},
                    "glossaries are not supported for fr-de",
                ),
            )
        ),
        (
            "/v3/glossaries",
            {"name": "x", "dictionaries": [DICTIONARY] * 2},
            "two dictionaries for de-en",
        ),
    ],
)
async def test_invalid_glossary_is_refused(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], problem: str
) -> None:
    assert problem in await refused(client.post(path, json=body))


async def test_pairs_that_a_glossary_can_have_are_listed(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v2/glossary-language-pairs")).json()["supported_languages"]
    assert {"source_lang": "de", "target_lang": "en"} in answer
    assert {"source_lang": "fr", "target_lang": "de"} not in answer


async def test_a_glossary_is_applied(client: httpx.AsyncClient) -> None:
    identifier = await created(client)
    assert await translated(client, "die wiese") == "DIE WIESE"
    assert "LAWN" in await translated(client, "die wiese", glossary_id=identifier)
    assert "LAWN" in await translated(client, "die wiese", glossary_ids=[identifier])
    both = await translated(client, "gute nacht wiese", glossary_id=identifier)
    assert "SLEEP WELL" in both
    assert "LAWN" in both


async def test_first_of_several_glossaries_takes_precedence(client: httpx.AsyncClient) -> None:
    first = await created(client, entries="wiese\tLAWN")
    second = await created(client, entries="wiese\tMEADOW\nhaus\tCOTTAGE")
    text = await translated(client, "wiese und haus", glossary_ids=[first, second])
    assert "LAWN" in text
    assert "COTTAGE" in text
    assert "MEADOW" not in text


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        ({"source_lang": None}, 400, "source_lang"),
        ({"source_lang": "EN", "target_lang": "DE"}, 400, "no entries from en to de"),
        ({"glossary_id": "9a3c1a5e-0000-4000-8000-000000000000"}, 404, "no glossary"),
        ({"glossary_ids": ["a"] * 6}, 404, "no glossary a"),
    ],
)
async def test_glossary_that_does_not_match_the_request_is_refused(
    client: httpx.AsyncClient, fields: dict[str, Any], status: int, problem: str
) -> None:
    body: dict[str, Any] = {"text": ["wiese"], "source_lang": "DE", "target_lang": "EN"}
    body |= {"glossary_id": await created(client)} | fields
    assert problem in await refused(client.post("/v2/translate", json=body), status)


async def test_glossaries_of_another_key_are_hidden(settings: Settings, keys: KeyStore) -> None:
    mine, yours = await keys.add("me"), await keys.add("you")
    async with connected(settings, api_keys="required") as client:
        client.headers.update(authorised(mine))
        identifier = await created(client)
        client.headers.update(authorised(yours))
        assert (await client.get("/v2/glossaries")).json() == {"glossaries": []}
        assert (await client.get(f"/v2/glossaries/{identifier}")).status_code == 404
        assert (await client.delete(f"/v3/glossaries/{identifier}")).status_code == 404


async def test_a_glossary_of_several_languages_is_made_changed_and_deleted(
    client: httpx.AsyncClient,
) -> None:
    glossary, path = await made(client, json=BOTH)
    counts = {(d["source_lang"], d["entry_count"]) for d in glossary["dictionaries"]}
    assert counts == {("de", 1), ("en", 1)}

    changed = await client.patch(path, json={"name": "renamed", "dictionaries": [MORE]})
    assert changed.json()["name"] == "renamed"
    pair = {"source_lang": "DE", "target_lang": "EN"}
    entries = (await client.get(f"{path}/entries", params=pair)).json()["dictionaries"]
    assert entries == [DICTIONARY | {"entries": "wiese\tLAWN\nhaus\tCOTTAGE"}]
    replaced = await client.put(f"{path}/dictionaries", json=MORE)
    assert replaced.json() == {**GERMAN, "entry_count": 1}
    assert (await client.delete(f"{path}/dictionaries", params=pair)).status_code == 204
    assert (await client.delete(f"{path}/dictionaries", params=pair)).status_code == 404
    assert len((await client.get(path)).json()["dictionaries"]) == 1
    assert (await client.get("/v3/glossaries")).json()["glossaries"][0]["name"] == "renamed"
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).status_code == 404


async def test_a_glossary_of_several_languages_is_applied_by_pair(
    client: httpx.AsyncClient,
) -> None:
    identifier = (await made(client, json=BOTH))[0]["glossary_id"]
    assert "LAWN" in await translated(client, "die wiese", glossary_id=identifier)
    back = {"source_lang": "EN", "target_lang": "DE", "glossary_id": identifier}
    assert "RASEN" in await translated(client, "the lawn", **back)
    every = (await client.get(f"/v3/glossaries/{identifier}/entries")).json()["dictionaries"]
    assert len(every) == 2
    assert (await client.get("/v2/glossaries")).json() == {"glossaries": []}
    assert (await client.get(f"/v2/glossaries/{identifier}")).status_code == 400


async def test_v3_entries_are_those_of_every_dictionary_in_order(
    client: httpx.AsyncClient,
) -> None:
    german = DICTIONARY | {"entries": 'größe\tSIZE "L"\nc:\\neu\tC:\\NEW'}
    _, path = await made(client, json={"name": "both", "dictionaries": [german, BACK]})
    response = await client.get(f"{path}/entries")
    assert response.headers["content-type"] == "application/json"
    back = BACK | {"entries": "lawn\tRASEN", "entries_format": "tsv"}
    assert response.json() == {"dictionaries": [german, back]}
    _, empty = await made(client, json={"name": "empty"})
    assert (await client.get(f"{empty}/entries")).json() == {"dictionaries": []}


@pytest.mark.parametrize("form", [{"json": {"name": "x"}}, {"data": {"name": "x"}}])
async def test_glossary_without_dictionaries_is_made_and_gets_them_later(
    client: httpx.AsyncClient, form: dict[str, Any]
) -> None:
    glossary, path = await made(client, **form)
    assert glossary["dictionaries"] == []
    assert (await client.get(path)).json() == glossary
    assert (await client.get("/v2/glossaries")).json()["glossaries"] == []
    assert (await client.put(f"{path}/dictionaries", json=DICTIONARY)).status_code == 200
    assert len((await client.get(path)).json()["dictionaries"]) == 1


def as_form(fields: dict[str, Any]) -> dict[str, str]:
    """The form of DeepL's clients for Node, Java and .NET."""
    form = {name: value for name, value in fields.items() if isinstance(value, str)}
    for number, dictionary in enumerate(fields.get("dictionaries", ())):
        form |= {f"dictionaries[{number}].{name}": value for name, value in dictionary.items()}
    return form


async def test_form_with_bracketed_names_makes_and_changes_a_glossary(
    client: httpx.AsyncClient,
) -> None:
    glossary, path = await made(client, data=as_form(BOTH))
    assert glossary["dictionaries"] == (await made(client, json=BOTH))[0]["dictionaries"]
    change = {"name": "renamed", "dictionaries": [MORE]}
    changed = (await client.patch(path, data=as_form(change))).json()
    assert changed["name"] == "renamed"
    assert changed["dictionaries"][0]["entry_count"] == 2
    replaced = await client.put(f"{path}/dictionaries", data=MORE)
    assert replaced.json()["entry_count"] == 1


async def test_dictionaries_keep_the_order_in_which_they_were_made(
    client: httpx.AsyncClient,
) -> None:
    back = {"name": "x", "dictionaries": [BACK, DICTIONARY]}
    glossary, path = await made(client, json=back)
    assert [d["source_lang"] for d in glossary["dictionaries"]] == ["en", "de"]
    await client.put(f"{path}/dictionaries", json=back["dictionaries"][0])
    assert (await client.get(path)).json()["dictionaries"] == glossary["dictionaries"]
