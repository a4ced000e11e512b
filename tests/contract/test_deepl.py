"""The official DeepL client and others, unmodified, against our own bundles and a real server."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deep_translator.constants
import deepl
import docx
import httpx
import pytest
import requests
from deep_translator import DeeplTranslator
from deepl.api_data import ModelType, MultilingualGlossaryDictionaryEntries

from benchmarks.server import serving
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore

BUNDLES = Path(__file__).parents[2] / "bundles"
GERMAN = "Zwei junge Männer spielen Fußball auf einer Wiese."
KEY = "a-key"
POOR = "a-key-with-little-left"
pytestmark = pytest.mark.slow


async def _add_keys(state: Path) -> None:
    async with Database(state / FILE_NAME) as database:
        keys = KeyStore(database)
        await keys.add("tester", KEY)
        await keys.add("poor", POOR, characters_per_month=60)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(state=tmp_path_factory.mktemp("state"))
    asyncio.run(_add_keys(settings.state))
    with serving(BUNDLES, SLOTS="16", STATE=str(settings.state), API_KEYS="required") as url:
        yield url


@pytest.fixture(autouse=True)
def _one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that the client would send again for half a minute fails at once."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


@pytest.fixture
def client(url: str) -> deepl.DeepLClient:
    return deepl.DeepLClient(KEY, server_url=url)


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        yield client


def one(result: deepl.TextResult | list[deepl.TextResult]) -> deepl.TextResult:
    assert isinstance(result, deepl.TextResult)
    return result


def test_a_text_is_translated(client: deepl.DeepLClient) -> None:
    result = one(client.translate_text(GERMAN, target_lang="EN-US"))
    assert "two young men" in result.text.lower()
    assert result.detected_source_lang == "DE"
    assert result.billed_characters == len(GERMAN)
    assert result.model_type_used is None


def test_texts_are_translated_with_every_option(client: deepl.DeepLClient) -> None:
    texts = ["Ein <b>Hund</b> läuft durch den Schnee.", "Ein <code>Mann</code> fährt Fahrrad."]
    results = client.translate_text(
        texts,
        source_lang="DE",
        target_lang="EN-GB",
        context="Es geht um Bilder.",
        split_sentences=deepl.SplitSentences.NO_NEWLINES,
        preserve_formatting=True,
        formality=deepl.Formality.PREFER_LESS,
        tag_handling="xml",
        tag_handling_version="v2",
        outline_detection=False,
        non_splitting_tags=["b"],
        splitting_tags="par,title",
        ignore_tags=["code"],
        model_type=ModelType.PREFER_QUALITY_OPTIMIZED,
        extra_body_parameters={"beam_size": 2, "nothing_we_know": [1]},
    )
    assert isinstance(results, list)
    dog, bicycle = results
    assert "<b>" in dog.text
    assert "</b>" in dog.text
    assert "dog" in dog.text.lower()
    assert "<code>Mann</code>" in bicycle.text
    assert {result.model_type_used for result in results} == {"quality_optimized"}


@pytest.mark.parametrize("split", list(deepl.SplitSentences))
def test_every_way_of_splitting_is_taken(
    client: deepl.DeepLClient, split: deepl.SplitSentences
) -> None:
    result = one(
        client.translate_text(
            "Ein Hund läuft.\nEin Mann singt.",
            source_lang="DE",
            target_lang="EN-US",
            split_sentences=split,
        )
    )
    assert "dog" in result.text.lower()


@pytest.mark.parametrize(
    "options",
    [
        {"formality": "more"},
        {"style_rule": "a-style"},
        {"translation_memory": "a-memory"},
        {"custom_instructions": ["Use short words."]},
        {"extra_body_parameters": {"beam_size": 0}},
        {"source_lang": "TLH"},
    ],
)
def test_what_cannot_be_done_is_a_bad_request_with_a_reason(
    client: deepl.DeepLClient, options: dict[str, Any]
) -> None:
    with pytest.raises(deepl.DeepLException, match=r"Bad request, message: .*supported") as caught:
        client.translate_text(GERMAN, **{"source_lang": "DE", "target_lang": "EN-US"} | options)
    assert caught.value.http_status_code == 400


def test_an_unsupported_target_is_named(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        client.translate_text(GERMAN, target_lang="TLH")


def test_languages_are_listed(client: deepl.DeepLClient) -> None:
    sources = {language.code: language.name for language in client.get_source_languages()}
    assert sources == {"DE": "German", "EN": "English"}
    targets = {each.code: each.supports_formality for each in client.get_target_languages()}
    assert targets == {"DE": False, "EN-GB": False, "EN-US": False}


def test_usage_is_told_until_the_quota_is_exceeded(url: str) -> None:
    client = deepl.DeepLClient(POOR, server_url=url)
    client.translate_text(GERMAN, target_lang="EN-US")
    usage = client.get_usage()
    assert (usage.character.count, usage.character.limit) == (len(GERMAN), 60)
    assert not usage.any_limit_reached
    with pytest.raises(deepl.QuotaExceededException, match="Quota exceeded"):
        client.translate_text(GERMAN, target_lang="EN-US")


def test_a_wrong_key_is_an_authorization_failure(url: str) -> None:
    client = deepl.DeepLClient("a-wrong-key", server_url=url)
    for call in (
        client.get_usage,
        client.get_source_languages,
        client.list_glossaries,
        client.list_multilingual_glossaries,
        lambda: client.translate_text(GERMAN, target_lang="EN-US"),
    ):
        with pytest.raises(deepl.AuthorizationException, match="Invalid API key"):
            call()


def _docx(*paragraphs: str) -> bytes:
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("extension", ["txt", "html", "docx", "md", "srt"])
def test_documents_are_uploaded_and_downloaded(
    client: deepl.DeepLClient, tmp_path: Path, extension: str
) -> None:
    source, target = tmp_path / f"in.{extension}", tmp_path / f"out.{extension}"
    source.write_bytes(
        {
            "txt": f"{GERMAN}\n".encode(),
            "html": f"<html><body><p>{GERMAN}</p></body></html>".encode(),
            "docx": _docx(GERMAN),
            "md": f"# {GERMAN}\n".encode(),
            "srt": f"1\n00:00:01,000 --> 00:00:02,000\n{GERMAN}\n".encode(),
        }[extension]
    )
    status = client.translate_document_from_filepath(
        source, target, source_lang="DE", target_lang="EN-US", formality="prefer_more"
    )
    assert status.done
    assert status.billed_characters == len(GERMAN)
    if extension == "docx":
        said = docx.Document(str(target)).paragraphs[0].text
    else:
        said = target.read_text(encoding="utf-8")
    assert "two young men" in said.lower()


def test_a_document_is_fetched_once(client: deepl.DeepLClient) -> None:
    handle = client.translate_document_upload(
        GERMAN.encode(), target_lang="EN-US", filename="picture.txt"
    )
    status = client.translate_document_wait_until_done(handle)
    assert status.status is deepl.DocumentStatus.Status.DONE
    result = io.BytesIO()
    client.translate_document_download(handle, result)
    assert b"two young men" in result.getvalue().lower()
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_download(handle, io.BytesIO())


def test_a_file_of_an_unknown_kind_is_refused(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match=r"files \.pdf are not supported"):
        client.translate_document_upload(b"%PDF-1.7", target_lang="EN-US", filename="a.pdf")


def test_glossaries_are_made_listed_applied_and_deleted(client: deepl.DeepLClient) -> None:
    assert "DE" in {pair.source_lang.upper() for pair in client.get_glossary_languages()}
    entries = {"Wiese": "lawn", "Männer": "blokes"}
    glossary = client.create_glossary("pictures", "DE", "EN-US", entries)
    assert (glossary.source_lang, glossary.target_lang) == ("DE", "EN")
    assert glossary.entry_count == 2
    assert client.get_glossary(glossary.glossary_id).creation_time == glossary.creation_time
    assert glossary.glossary_id in {each.glossary_id for each in client.list_glossaries()}
    assert client.get_glossary_entries(glossary) == entries

    result = one(client.translate_text_with_glossary(GERMAN, glossary))
    assert "lawn" in result.text
    assert "blokes" in result.text
    result = one(
        client.translate_text(
            GERMAN, source_lang="DE", target_lang="EN-US", glossary_ids=[glossary.glossary_id]
        )
    )
    assert "lawn" in result.text
    with pytest.raises(deepl.DeepLException, match="Bad request, message: the languages do not"):
        client.translate_text(
            "A dog.", source_lang="EN", target_lang="DE", glossary=glossary.glossary_id
        )

    translated = io.BytesIO()
    client.translate_document(
        GERMAN.encode(),
        translated,
        source_lang="DE",
        target_lang="EN-US",
        glossary=glossary,
        filename="picture.txt",
    )
    assert b"lawn" in translated.getvalue()

    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_glossaries_are_made_from_csv(client: deepl.DeepLClient) -> None:
    made = client.create_glossary_from_csv("csv", "DE", "EN", "Wiese,lawn,de,en\nHund,hound,de,en")
    assert client.get_glossary_entries(made) == {"Wiese": "lawn", "Hund": "hound"}
    client.delete_glossary(made)


def test_glossaries_of_several_languages_are_kept(client: deepl.DeepLClient) -> None:
    made = client.create_multilingual_glossary(
        "both ways",
        [
            MultilingualGlossaryDictionaryEntries("DE", "EN", {"Wiese": "lawn"}),
            MultilingualGlossaryDictionaryEntries("EN", "DE", {"lawn": "Rasen"}),
        ],
    )
    identifier = made.glossary_id
    assert len(made.dictionaries) == 2
    assert client.get_multilingual_glossary(identifier).name == "both ways"
    listed = {each.glossary_id for each in client.list_multilingual_glossaries()}
    assert identifier in listed

    result = one(
        client.translate_text(GERMAN, source_lang="DE", target_lang="EN-US", glossary=made)
    )
    assert "lawn" in result.text

    more = MultilingualGlossaryDictionaryEntries("DE", "EN", {"Hund": "hound"})
    client.update_multilingual_glossary_dictionary(identifier, more)
    assert client.update_multilingual_glossary_name(identifier, "renamed").name == "renamed"
    kept = client.get_multilingual_glossary_entries(identifier, "DE", "EN").dictionaries[0]
    assert str(kept.entries) == "Wiese\tlawn\nHund\thound"
    replaced = client.replace_multilingual_glossary_dictionary(identifier, more)
    assert replaced.entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    assert len(client.get_multilingual_glossary(identifier).dictionaries) == 1
    client.delete_multilingual_glossary(identifier)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(identifier)


def test_what_weblate_sends_is_answered_as_it_expects(http: httpx.Client) -> None:
    for kind in ("source", "target"):
        listed = http.get("/v2/languages", params={"type": kind}).json()
        assert "DE" in {each["language"] for each in listed}
    made = {
        "name": "weblate:1:de:en:abc",
        "source_lang": "DE",
        "target_lang": "EN",
        "entries": "Wiese\tlawn",
        "entries_format": "tsv",
    }
    assert http.post("/v2/glossaries", json=made).status_code == 201
    listed = http.get("/v2/glossaries").json()["glossaries"]
    ours = sorted(listed, key=lambda glossary: str(glossary["creation_time"]))[-1]
    assert ours["name"] == made["name"]
    response = http.post(
        "/v2/translate",
        json={
            "text": ['Ein Hund <x id="7"></x> läuft durch den Schnee.', "Ein Mann."],
            "source_lang": "DE",
            "target_lang": "EN",
            "tag_handling": "xml",
            "ignore_tags": ["x"],
            "formality": "prefer_more",
            "glossary_id": ours["glossary_id"],
        },
    )
    assert response.status_code == 200, response.text
    dog, man = response.json()["translations"]
    assert '<x id="7"></x>' in dog["text"]
    assert "man" in man["text"].lower()
    assert http.delete(f"/v2/glossaries/{ours['glossary_id']}").status_code == 204


def test_what_mastodon_sends_is_answered_as_it_expects(http: httpx.Client) -> None:
    form = {
        "text": [
            "<p>Ein Hund läuft durch den <strong>Schnee</strong>.</p>",
            "<p>Ein Mann fährt Fahrrad.</p>",
        ],
        "source_lang": "DE",
        "target_lang": "en",
        "tag_handling": "html",
    }
    response = http.post("/v2/translate", data=form)
    dog, bicycle = response.json()["translations"]
    assert dog["text"].startswith("<p>")
    assert dog["text"].endswith("</p>")
    assert dog["text"].count("<strong>") == dog["text"].count("</strong>") == 1
    assert dog["detected_source_language"] == "DE"
    assert bicycle["text"].startswith("<p>")


def test_deep_translator_translates(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bases = {"DEEPL_FREE": f"{url}/{{version}}/", "DEEPL": f"{url}/{{version}}/"}
    for name, base in bases.items():
        monkeypatch.setitem(deep_translator.constants.BASE_URLS, name, base)
    translator = DeeplTranslator(api_key=KEY, source="de", target="en")
    assert "two young men" in translator.translate(GERMAN).lower()
    assert len(translator.translate_batch([GERMAN, GERMAN])) == 2
    wrong = DeeplTranslator(api_key="wrong", source="de", target="en")
    with pytest.raises(deep_translator.exceptions.AuthorizationException):
        wrong.translate(GERMAN)


def test_the_command_line_of_the_client_works(url: str) -> None:
    arguments = ["--auth-key", KEY, "--server-url", url, "text", "--to", "EN-US", GERMAN]
    done = subprocess.run(
        [sys.executable, "-m", "deepl", *arguments], capture_output=True, text=True, check=True
    )
    assert "two young men" in done.stdout.lower()


def test_a_refusal_is_never_a_body_that_the_client_cannot_read(url: str) -> None:
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    for path, body in (("translate", b"[]"), ("glossaries", b"{"), ("nothing", b"{}")):
        answer = requests.post(f"{url}/v2/{path}", data=body, headers=headers, timeout=10)
        assert answer.status_code in (400, 404)
        assert isinstance(answer.json()["message"], str)
