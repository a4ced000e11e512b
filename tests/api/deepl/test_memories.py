"""Translation memories: imported, listed, exported, deleted, and used in translations."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from service.api.deepl.memories import Memories
from service.state.database import Database
from service.state.memories import MemoryStore
from service.state.tmx import ReadMemory
from tests.api.answers import answered, refused

PATH = "/v3/translation_memories"
UNITS = (
    ("Hallo, Welt!", "Hello everyone!"),
    ("der rote hund singt heute", "THE nice BIRD sings TODAY"),
    ("a & b", "A < B"),
    ("Eins. Zwei.", "Both at once."),
)


def tmx(*units: tuple[str, str], source: str = "de-DE") -> bytes:
    rows = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{_escaped(de)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{_escaped(en)}</seg></tuv></tu>'
        for de, en in units
    )
    head = f'<header srclang="{source}" datatype="plaintext"/>'
    return f'<?xml version="1.0"?><tmx version="1.4">{head}<body>{rows}</body></tmx>'.encode()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


async def imported(client: httpx.AsyncClient, content: bytes, **headers: str) -> dict[str, Any]:
    """The result of an import job, as DeepL's clients run it."""
    file = {"file_name": "greetings.tmx", "content_length": len(content)}
    began = await client.post(f"{PATH}/import", json={"source_file": file}, headers=headers)
    assert began.status_code == 201, began.text
    job = f"{PATH}/jobs/{began.json()['job_id']}"
    (before,) = (await answered(client.get(job, headers=headers)))["results"]
    assert before["status"] == "awaiting_input"
    sent = await client.put(began.json()["upload_url"], content=content)
    assert sent.status_code == 200, sent.text
    assert (await client.put(began.json()["upload_url"], content=content)).status_code == 400
    (result,) = (await answered(client.get(job, headers=headers)))["results"]
    assert isinstance(result, dict)
    return result


@pytest.fixture
async def memory(client: httpx.AsyncClient) -> str:
    result = await imported(client, tmx(*UNITS))
    assert result["status"] == "completed"
    identifier: str = result["translation_memory_id"]
    return identifier


async def translated(
    client: httpx.AsyncClient, text: str, memory: str, **fields: Any
) -> dict[str, Any]:
    body = {"text": [text], "source_lang": "DE", "target_lang": "EN-US", **fields}
    asked = client.post("/v2/translate", json={**body, "translation_memory_id": memory})
    (found,) = (await answered(asked))["translations"]
    assert isinstance(found, dict)
    return found


async def test_memory_is_described_listed_and_deleted(
    client: httpx.AsyncClient, memory: str
) -> None:
    found = await answered(client.get(f"{PATH}/{memory}"))
    assert {name: found[name] for name in ("name", "source_language", "target_languages")} == {
        "name": "greetings.tmx",
        "source_language": "de",
        "target_languages": ["en"],
    }
    assert found["segment_count"] == len(UNITS)
    listed = await answered(client.get(PATH, params={"page": 0, "page_size": 25}))
    assert listed == {"translation_memories": [found], "total_count": 1}
    assert (await client.delete(f"{PATH}/{memory}")).status_code == 204
    assert memory in await refused(client.get(f"{PATH}/{memory}"), 404)
    asked = {"text": ["a"], "target_lang": "EN", "translation_memory_id": memory}
    await refused(client.post("/v2/translate", json=asked), 404)


async def test_segments_are_paged_and_filtered(client: httpx.AsyncClient, memory: str) -> None:
    address, seen, cursor = f"{PATH}/{memory}/segments", list[str](), None
    while True:
        query = {"page_size": "3"} | ({"page_cursor": cursor} if cursor else {})
        page = await answered(client.get(address, params=query))
        seen += [each["source_text"] for each in page["segments"]]
        if (cursor := page.get("next_page_cursor")) is None:
            break
    assert seen == [source for source, _ in UNITS]
    for query, count in (
        ({"filter_text": "the NICE"}, 1),
        ({"filter_text": "the NICE", "filter_case_sensitive": "true"}, 0),
    ):
        assert len((await answered(client.get(address, params=query)))["segments"]) == count


async def test_exported_file_is_imported_as_the_same_memory(
    client: httpx.AsyncClient, memory: str
) -> None:
    began = await client.post(f"{PATH}/{memory}/export")
    assert began.status_code == 202
    (result,) = (await answered(client.get(f"{PATH}/jobs/{began.json()['job_id']}")))["results"]
    content = (await client.get(result["download_url"])).content
    copy = (await imported(client, content))["translation_memory_id"]
    first, second = [
        (await answered(client.get(f"{PATH}/{each}/segments")))["segments"]
        for each in (memory, copy)
    ]
    texts = [
        [(e["source_text"], e["targets"][0]["target_text"]) for e in s] for s in (first, second)
    ]
    assert texts[0] == texts[1] == list(UNITS)


async def test_equal_sentences_get_the_stored_translation(
    client: httpx.AsyncClient, memory: str
) -> None:
    found = await translated(client, "Hallo,  Welt! Ja nein.", memory)
    assert found["text"] == "Hello everyone! JA NEIN."
    (match,) = found["translation_memory_matches"]
    unit = {"source": UNITS[0][0], "target": UNITS[0][1]}
    assert match == {**unit, "score": 100, "use": "exact"}
    assert (await translated(client, "Eins. Zwei.", memory))["text"] == "Both at once."
    marked = await translated(client, "<p>a &amp; b</p>", memory, tag_handling="html")
    assert marked["text"] == "<p>A &lt; B</p>"
    inside = await translated(client, "<b>Hallo</b>, Welt!", memory, tag_handling="html")
    assert inside["text"] == "<b>HALLO</b>, WELT!"
    assert inside["translation_memory_matches"][0]["use"] == "none"


async def test_units_with_placeholders_and_without_words_are_exact_and_terms_come_first(
    client: httpx.AsyncClient,
) -> None:
    units = (
        ("Hallo {name}, ja", "Yes, {name}"),
        ("§ 5", "Section 5"),
        ("um 9:15 Uhr da", "9:15 A.M."),
    )
    memory = (await imported(client, tmx(*units)))["translation_memory_id"]
    for source, target in units:
        assert (await translated(client, source, memory))["text"] == target
    later = await translated(client, "um 9:45 Uhr da", memory)
    assert later["translation_memory_matches"][0]["use"] == "none"
    body = {"name": "a", "source_lang": "de", "target_lang": "en", "entries_format": "tsv"}
    made = await client.post("/v2/glossaries", json={**body, "entries": "da\tthere"})
    found = await translated(client, units[2][0], memory, glossary_id=made.json()["glossary_id"])
    assert (found["text"], found["translation_memory_matches"][0]["use"]) == (
        "UM 9:15 UHR there",
        "none",
    )


async def test_similar_sentences_are_adapted_above_the_threshold_only(
    client: httpx.AsyncClient, memory: str
) -> None:
    text = "der rote wolf singt heute"
    found = await translated(client, text, memory)
    (match,) = found["translation_memory_matches"]
    assert match["source"] == UNITS[1][0]
    assert 75 <= match["score"] < 100
    assert (found["text"], match["use"]) == ("THE nice WOLF sings TODAY", "adapted")
    thrice = await translated(client, "\n".join([text] * 3), memory)
    assert thrice["text"] == "\n".join([found["text"]] * 3)
    assert thrice["translation_memory_matches"] == [match] * 3
    above = await translated(client, text, memory, translation_memory_threshold=99)
    assert above["text"] == text.upper()
    assert "translation_memory_matches" not in above


async def test_indexed_memory_does_not_wait_for_the_index_of_another() -> None:
    async with Database(None) as database:
        store = MemoryStore(database)
        job = await store.open_job(None, "import", "a")
        await store.finish_import(job, ReadMemory("de", [("a", {"en": "b"})]))
        (memory,), memories = await store.all(None), Memories(store)
        index = await memories._index(None, memory, "en")
        async with memories._building, asyncio.timeout(5):
            assert await memories._index(None, memory, "en") is index


async def test_languages_of_the_memory_are_required(client: httpx.AsyncClient, memory: str) -> None:
    asked = {"text": ["a"], "translation_memory_id": memory, "source_lang": "EN"}
    message = await refused(client.post("/v2/translate", json={**asked, "target_lang": "DE"}))
    assert "from de to en" in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"<tmx><body>", "not well formed"),
        (tmx(), "no unit"),
        (b'<!DOCTYPE tmx [<!ENTITY e "x">]>' + tmx(("&amp;e;", "y"))[21:], ""),
    ],
)
async def test_broken_files_fail_their_job(
    client: httpx.AsyncClient, content: bytes, part: str
) -> None:
    result = await imported(client, content)
    if part:
        assert result["status"] == "failed"
        assert part in result["error"]["message"]
