"""Contract tests: the unmodified official DeepL client against a real server and our bundles."""

from __future__ import annotations

import io
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepl
import docx
import pytest
from deepl.api_data import ModelType, MultilingualGlossaryDictionaryEntries

from tests.api.deepl.test_memories import tmx
from tests.contract.conftest import KEY, POOR

GERMAN = "Zwei junge Männer spielen Fußball auf einer Wiese."
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the client's retries, which would take half a minute."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause of five seconds between the client's requests for a document's status."""
    brief = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.02))
    monkeypatch.setattr("deepl.translator.time", brief)


@pytest.fixture
def client(deepl_url: str) -> deepl.DeepLClient:
    return deepl.DeepLClient(KEY, server_url=deepl_url)


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
def test_every_split_sentences_mode_is_accepted(
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
        {"extra_body_parameters": {"beam_size": 0}},
        {"source_lang": "TLH"},
        {"target_lang": "TLH"},
    ],
)
def test_invalid_option_raises_bad_request_with_a_reason(
    client: deepl.DeepLClient, options: dict[str, Any]
) -> None:
    with pytest.raises(deepl.DeepLException, match=r"Bad request, message: .*supported") as caught:
        client.translate_text(GERMAN, **{"source_lang": "DE", "target_lang": "EN-US"} | options)
    assert caught.value.http_status_code == 400


@pytest.mark.parametrize(
    "options",
    [
        {"formality": "more"},
        {"style_rule": "a-style"},
        {"custom_instructions": ["Use short words."]},
    ],
)
def test_unsupported_options_do_not_change_the_translation(
    client: deepl.DeepLClient, options: dict[str, Any]
) -> None:
    plain = one(client.translate_text(GERMAN, source_lang="DE", target_lang="EN-US"))
    given = one(client.translate_text(GERMAN, source_lang="DE", target_lang="EN-US", **options))
    assert given.text == plain.text


def test_translation_memories_are_imported_used_exported_and_deleted(
    client: deepl.DeepLClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pictures.tmx"
    file.write_bytes(tmx((GERMAN, "Two chaps on a lawn."), ("Zwei Hunde.", "A pair of dogs.")))
    job = client.import_translation_memory_from_filepath(file, display_name="pictures")
    assert job.result is not None
    identifier = job.result.translation_memory_id
    assert identifier is not None
    (listed,) = client.list_translation_memories()
    assert listed.translation_memory_id == identifier
    memory = client.get_translation_memory(identifier)
    assert (memory.name, memory.source_language, memory.segment_count) == ("pictures", "de", 2)
    segments = client.list_translation_memory_segments(memory, filter_text="chaps")
    assert [each.source_text for each in segments] == [GERMAN]
    result = one(
        client.translate_text(
            f"{GERMAN} Zwei Hunde.",
            source_lang="DE",
            target_lang="EN-US",
            translation_memory=memory,
            translation_memory_threshold=80,
        )
    )
    assert result.text == "Two chaps on a lawn. A pair of dogs."
    exported = tmp_path / "exported.tmx"
    client.export_translation_memory_to_filepath(memory, exported)
    assert "Two chaps on a lawn." in exported.read_text("utf-8")
    client.delete_translation_memory(memory)
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.get_translation_memory(identifier)


def test_languages_are_listed(client: deepl.DeepLClient) -> None:
    sources = {language.code: language.name for language in client.get_source_languages()}
    assert sources == {"DE": "German", "EN": "English"}
    targets = {each.code: each.supports_formality for each in client.get_target_languages()}
    assert targets == {"DE": False, "EN-GB": False, "EN-US": False}


def test_usage_is_reported_until_the_quota_is_exceeded(deepl_url: str) -> None:
    client = deepl.DeepLClient(POOR, server_url=deepl_url)
    client.translate_text(GERMAN, target_lang="EN-US")
    usage = client.get_usage()
    assert (usage.character.count, usage.character.limit) == (len(GERMAN), 60)
    assert not usage.any_limit_reached
    with pytest.raises(deepl.QuotaExceededException, match="Quota exceeded"):
        client.translate_text(GERMAN, target_lang="EN-US")


def test_a_wrong_key_is_an_authorization_failure(deepl_url: str) -> None:
    client = deepl.DeepLClient("a-wrong-key", server_url=deepl_url)
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
    with pytest.raises(deepl.DeepLException, match=r"files \.odg are not supported"):
        client.translate_document_upload(b"PK", target_lang="EN-US", filename="a.odg")


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
    with pytest.raises(deepl.DeepLException, match="Bad request, message: No dictionary found"):
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
