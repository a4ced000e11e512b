"""Contract tests: LibreTranslate's clients against a real server and our bundles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI

from benchmarks.server import serving
from tests.support.keys import add_key

BUNDLES = Path(__file__).parents[2] / "bundles"
GERMAN = "Ein Hund läuft durch den Schnee."
pytestmark = pytest.mark.slow
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = str(tmp_path_factory.mktemp("state"))
    with serving(BUNDLES, SLOTS="16", STATE=state) as (url, _):
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that requires keys; ``a-key`` is valid."""
    state = tmp_path_factory.mktemp("guarded")
    asyncio.run(add_key(state, "tester", "a-key"))
    with serving(BUNDLES, SLOTS="16", STATE=str(state), API_KEYS="required") as (url, _):
        yield url


def test_libretranslatepy_translates(url: str) -> None:
    api = LibreTranslateAPI(url)
    english = api.translate(GERMAN, "de", "en")
    assert "dog" in english.lower()
    assert "snow" in english.lower()


def test_libretranslatepy_detects_and_lists(url: str) -> None:
    api = LibreTranslateAPI(url + "/", api_key="not needed")
    assert api.detect(GERMAN)[0]["language"] == "de"
    listed = {each["code"]: each for each in api.languages()}
    assert listed["de"] == {"code": "de", "name": "German", "targets": ["de", "en"]}


def test_libretranslatepy_sends_its_key(guarded: str) -> None:
    assert "dog" in LibreTranslateAPI(guarded, "a-key").translate(GERMAN, "de", "en").lower()
    assert LibreTranslateAPI(guarded).languages()


def test_deep_translator_translates(url: str) -> None:
    translator = LibreTranslator("de", "en", api_key="x", custom_url=url + "/")
    assert "dog" in translator.translate(GERMAN).lower()
    assert len(translator.translate_batch([GERMAN, "Zwei Männer."])) == 2
    translator = LibreTranslator("auto", "en", api_key="x", custom_url=url + "/")
    assert "dog" in translator.translate(GERMAN).lower()


def test_refusals_raise_the_exceptions_of_deep_translator(url: str, guarded: str) -> None:
    with pytest.raises(AuthorizationException):
        LibreTranslator("de", "en", api_key="wrong", custom_url=guarded + "/").translate(GERMAN)
    with pytest.raises(ServerException):
        LibreTranslator("fr", "en", api_key="x", custom_url=url + "/").translate("Un chien.")
    translator = LibreTranslator("de", "en", api_key="a-key", custom_url=guarded + "/")
    assert "dog" in translator.translate(GERMAN).lower()


def test_mastodon_translates_posts(client: httpx.Client) -> None:
    """``TranslationService::LibreTranslate``: HTML, a list of fragments, no key, often ``auto``."""
    post = '<p>Ein Hund läuft durch den Schnee. <a href="https://example.org/@a">@a</a></p>'
    body = {"q": [post, "Zwei Männer."], "source": "auto", "target": "en", "format": "html"}
    content = json.dumps({**body, "api_key": None})
    response = client.post("/translate", content=content, headers=JSON)
    assert response.status_code == 200
    answer = response.json()
    first, second = answer["translatedText"]
    assert first.startswith("<p>")
    assert first.endswith("</p>")
    assert '<a href="https://example.org/@a">' in first
    assert first.count("</a>") == 1
    assert "men" in second.lower()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["de", "de"]
    languages = client.get("/languages").json()
    targets = {each["code"]: set(each["targets"]) - {each["code"]} for each in languages}
    assert targets == {"de": {"en"}, "en": {"de"}}


def test_subtitle_edit_translates_captions(client: httpx.Client) -> None:
    """A hand-built JSON body with line breaks as tags, not declared as HTML."""
    content = (
        '{"q": "Ein Hund läuft durch den Schnee.<br />Zwei Männer spielen Fußball.", '
        '"source": "de", "target": "en"}'
    )
    headers = {**JSON, "accept": "application/json"}
    response = client.post("/translate", content=content.encode(), headers=headers)
    assert response.status_code == 200
    text = response.json()["translatedText"]
    assert text.count("<br />") == 1
    assert "dog" in text.lower()
    assert "men" in text.lower()


def test_wagtail_localize_translates_pages(client: httpx.Client) -> None:
    """HTML fragments with numbered links, which must come back in order."""
    texts = ['Ein Hund läuft durch den <a id="a1">Schnee</a>.', "<b>Zwei Männer</b> spielen."]
    body = {"q": texts, "source": "de", "target": "en", "api_key": "", "format": "html"}
    response = client.post("/translate", content=json.dumps(body), headers=JSON)
    response.raise_for_status()
    first, second = response.json()["translatedText"]
    assert '<a id="a1">' in first
    assert first.count("</a>") == 1
    assert "snow" in first.lower()
    assert (second.count("<b>"), second.count("</b>")) == (1, 1)
