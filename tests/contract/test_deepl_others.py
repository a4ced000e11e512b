"""Contract tests: requests of other DeepL clients, and the answer fields that they read."""

from __future__ import annotations

import deep_translator.constants
import httpx
import pytest
from deep_translator import DeeplTranslator

from tests.contract.conftest import KEY
from tests.support.programs import python

GERMAN = "Zwei junge Männer spielen Fußball auf einer Wiese."
pytestmark = pytest.mark.slow


def test_weblate_requests_are_answered(http: httpx.Client) -> None:
    """Weblate 2026.10 updates a glossary of a project when its terms have changed."""
    for resource, code in (("translate_text", "de"), ("glossary", "de"), ("write", None)):
        listed = http.get("/v3/languages", params={"resource": resource}).json()
        assert [each["lang"] for each in listed if each["lang"] == code] == [code] * bool(code)
    entries = {"source_lang": "de", "target_lang": "en", "entries_format": "tsv"}
    before, after = (entries | {"entries": f"Wiese\t{word}"} for word in ("meadow", "lawn"))
    made = {"name": "weblate:1:de:en:abc", "dictionaries": [before]}
    assert http.post("/v3/glossaries", json=made).status_code == 201
    listed = http.get("/v3/glossaries").json()["glossaries"]
    ours = sorted(listed, key=lambda glossary: str(glossary["creation_time"]))[-1]
    assert ours["name"] == made["name"]
    path = f"/v3/glossaries/{ours['glossary_id']}"
    assert http.put(f"{path}/dictionaries", json=after).status_code == 200
    assert http.patch(path, json={"name": "weblate:1:de:en:abd"}).status_code == 200
    response = http.post(
        "/v2/translate",
        json={
            "text": ['Ein Hund <x id="7"></x> läuft durch den Schnee.', "Ein Mann auf der Wiese."],
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
    assert "lawn" in man["text"]
    assert [http.delete(path).status_code for _ in range(2)] == [204, 404]


def test_mastodon_requests_are_answered(http: httpx.Client) -> None:
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


def test_deep_translator_translates(deepl_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bases = {"DEEPL_FREE": f"{deepl_url}/{{version}}/", "DEEPL": f"{deepl_url}/{{version}}/"}
    for name, base in bases.items():
        monkeypatch.setitem(deep_translator.constants.BASE_URLS, name, base)
    translator = DeeplTranslator(api_key=KEY, source="de", target="en")
    assert "two young men" in translator.translate(GERMAN).lower()
    assert len(translator.translate_batch([GERMAN, GERMAN])) == 2
    wrong = DeeplTranslator(api_key="wrong", source="de", target="en")
    with pytest.raises(deep_translator.exceptions.AuthorizationException):
        wrong.translate(GERMAN)


def test_the_command_line_of_the_client_works(deepl_url: str) -> None:
    arguments = ["--auth-key", KEY, "--server-url", deepl_url, "text", "--to", "EN-US", GERMAN]
    assert "two young men" in python("-m", "deepl", *arguments).lower()
