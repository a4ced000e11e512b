"""DeepL's options of a translation, its languages, usage, and statuses."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
from hypothesis import given
from hypothesis import strategies as st

from service.api.deepl.dialect import DEEPL
from service.api.deepl.languages import base, stored_pair
from service.api.deepl.translate import TextParameters
from service.api.fields.parameters import collected, form_pairs
from service.bootstrap import Service
from service.text.types import LanguagePair
from tests.api.answers import answered, refused
from tests.support.asgi import client_of

TRANSLATE = "/v2/translate"
BODY = {"text": ["hallo"], "source_lang": "DE", "target_lang": "EN-US"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


def parameters(**options: Any) -> TextParameters:
    return TextParameters.model_validate(BODY | options, strict=True)


def test_split_sentences_selects_the_splitting() -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "sentences"),
        ({"split_sentences": "1"}, "sentences"),
        ({"split_sentences": 1}, "sentences"),
        ({"split_sentences": 0}, "none"),
        ({"split_sentences": "0"}, "none"),
        ({"split_sentences": "nonewlines"}, "ignoring_lines"),
        ({"tag_handling": "html"}, "ignoring_lines"),
        ({"tag_handling": "xml"}, "sentences"),
        ({"tag_handling": "html", "split_sentences": "1"}, "sentences"),
    ]
    for options, splitting in rows:
        assert parameters(**options).splitting == splitting, options


def test_tags_are_lists_or_comma_separated() -> None:
    tags = {"splitting_tags": ["par", "title,x"], "non_splitting_tags": ["Inline"]}
    markup = parameters(
        tag_handling="xml", ignore_tags="a, b", outline_detection=False, **tags
    ).markup
    assert (markup.kind, markup.outline_detection) == ("xml", False)
    assert markup.ignore_tags == {"a", "b"}
    assert markup.splitting_tags == {"par", "title", "x"}
    assert markup.non_splitting_tags == {"Inline"}
    assert parameters(tag_handling="html", ignore_tags=["CODE"]).markup.ignore_tags == {"code"}


def test_latency_optimized_is_greedy_unless_beam_size_is_given() -> None:
    assert parameters(model_type="latency_optimized").decoding.beam_size == 1
    assert parameters(model_type="latency_optimized", beam_size=4).decoding.beam_size == 4
    assert parameters().decoding.beam_size is None


async def test_tags_are_kept_and_ignored_tags_keep_their_content(client: httpx.AsyncClient) -> None:
    text = 'hallo <b>welt</b> <x id="7"></x> und <code>dies</code>'
    for kind in ("html", "xml"):
        body = {**BODY, "text": [text], "tag_handling": kind, "ignore_tags": ["code"]}
        (found,) = (await answered(client.post(TRANSLATE, json=body)))["translations"]
        assert '<x id="7"></x>' in found["text"]
        assert "<code>dies</code>" in found["text"]
        assert found["text"].count("<b>") == found["text"].count("</b>") == 1


async def test_empty_optional_fields_and_flags_as_text_are_read(client: httpx.AsyncClient) -> None:
    empty = dict.fromkeys(("source_lang", "glossary_id", "formality", "tag_handling"), "")
    flags = {"preserve_formatting": "0", "outline_detection": "1", "show_billed_characters": "1"}
    asked = client.post(TRANSLATE, json={**BODY, **empty, **flags, "split_sentences": ""})
    (found,) = (await answered(asked))["translations"]
    assert "ignored" not in found
    assert parameters(preserve_formatting="0").preserve_formatting is False
    assert parameters(outline_detection="1").outline_detection is True


async def test_a_form_may_repeat_its_fields_a_thousand_times(client: httpx.AsyncClient) -> None:
    form = [("text", "ja")] * 50 + [("ignore_tags", "x")] * 1000
    form += [("target_lang", "EN"), ("source_lang", "DE")]
    asked = client.post(TRANSLATE, content=urlencode(form), headers=FORM)
    assert len((await answered(asked))["translations"]) == 50


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=5))
def test_form_texts_are_read_unchanged(texts: list[str]) -> None:
    form = urlencode([("text", text) for text in texts]).encode()
    assert collected(form_pairs(form), DEEPL)["text"] == texts


async def test_languages_are_listed_by_side_and_each_target_translates(
    client: httpx.AsyncClient,
) -> None:
    path = "/v2/languages"
    sources = [
        {"language": "EN", "name": "English"},
        {"language": "FR", "name": "French"},
        {"language": "DE", "name": "German"},
    ]
    for asked in (
        client.get(path),
        client.get(f"{path}?type=source"),
        client.request("GET", path, content=b"", headers=FORM),
    ):
        assert await answered(asked) == sources
    targets = await answered(client.get(f"{path}?type=target"))
    in_body = client.request("GET", path, content=b"type=target", headers=FORM)
    assert await answered(in_body) == targets
    assert [each["language"] for each in targets] == ["EN-GB", "EN-US", "DE"]
    assert {each["supports_formality"] for each in targets} == {False}
    for each in targets:
        body = {**BODY, "source_lang": "FR", "target_lang": each["language"]}
        assert (await client.post(TRANSLATE, json=body)).status_code == 200


async def test_usage_counts_translated_characters_without_tags(client: httpx.AsyncClient) -> None:
    await client.post(TRANSLATE, json={**BODY, "text": ["hallo", "welt"]})
    await client.post(TRANSLATE, json={**BODY, "text": ["<b>ja</b>"], "tag_handling": "xml"})
    for method in ("GET", "POST"):
        usage = (await client.request(method, "/v2/usage")).json()
        assert usage["character_count"] == 11
        assert usage["character_limit"] >= 10**12
        assert usage["start_time"] < usage["end_time"]


def test_glossary_codes_ignore_variants() -> None:
    codes = ("de", "pt-BR", "zh-Hant", "x-shout")
    assert [base(code) for code in codes] == ["de", "pt", "zh", "x-shout"]
    pairs = (LanguagePair("en", "pt-BR"), LanguagePair("en", "de"))
    assert stored_pair("EN", "PT", pairs) == pairs[0]
    assert stored_pair("en", "pt-br", pairs) == pairs[0]
    assert stored_pair("EN", "FR", pairs) == LanguagePair("en", "fr")


async def test_wrong_method_returns_405_with_all_allowed_methods(client: httpx.AsyncClient) -> None:
    for path, methods in (
        (TRANSLATE, "GET, HEAD, POST"),
        ("/v2/glossaries/x", "DELETE, GET, HEAD"),
        ("/v3/glossaries/x/dictionaries", "DELETE, PUT"),
    ):
        response = await client.request("OPTIONS", path)
        assert (response.status_code, response.headers["allow"]) == (405, methods)


async def test_passed_deadline_is_504_and_a_service_without_models_503(service: Service) -> None:
    async with client_of(service.app) as client:
        late = client.post(TRANSLATE, json=BODY, headers={"x-request-timeout": "0.000001"})
        assert "seconds" in await refused(late, 504)
        await service.repository.close()
        response = await client.post(TRANSLATE, json=BODY)
    assert response.status_code == 503
    assert "retry-after" in response.headers
