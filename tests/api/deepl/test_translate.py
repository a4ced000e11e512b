"""Tests of ``/v2/translate``: parameters and answers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.deepl.dialect import DEEPL
from service.api.deepl.translate import TextParameters
from service.api.errors import BadRequest
from service.api.fields.parameters import collected, form_pairs, json_object
from tests.api.answers import answered, refused

TRANSLATE = "/v2/translate"
BODY = {"text": ["hallo"], "source_lang": "DE", "target_lang": "EN-US"}


async def translations(client: httpx.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    answer = await answered(client.post(TRANSLATE, json=BODY | fields))
    found: list[dict[str, Any]] = answer["translations"]
    return found


async def problem(client: httpx.AsyncClient, **fields: Any) -> str:
    return await refused(client.post(TRANSLATE, json=BODY | fields))


async def test_an_answer_has_every_field_that_the_client_reads(client: httpx.AsyncClient) -> None:
    assert await translations(client) == [
        {
            "detected_source_language": "DE",
            "text": "HALLO",
            "billed_characters": 5,
            "truncated": False,
        }
    ]


async def test_translations_are_in_the_order_of_the_texts(client: httpx.AsyncClient) -> None:
    texts = ["eins", "", "  zwei\n\ndrei ", "vier"]
    found = await translations(client, text=texts)
    assert [each["text"] for each in found] == ["EINS", "", "  ZWEI\n\nDREI ", "VIER"]
    assert [each["billed_characters"] for each in found] == list(map(len, texts))


@pytest.mark.parametrize(
    ("text", "handling", "billed"),
    [
        ('<h1 style="color:red;">This is an important title</h1>', "html", 26),
        ("<h1>This is an important title</h1>", "xml", 26),
        ("<!-- none --><p>a &lt; b<br/></p>", "html", 8),
        ("<ä:ö>1</ä:ö>", "xml", 1),
        ("a < b, c > d", "html", 12),
        ("<b>a</b>", None, 8),
    ],
)
async def test_tags_are_not_billed(
    client: httpx.AsyncClient, text: str, handling: str | None, billed: int
) -> None:
    before = (await client.get("/v2/usage")).json()["character_count"]
    [found] = await translations(client, text=[text], tag_handling=handling)
    assert found["billed_characters"] == billed
    assert (await client.get("/v2/usage")).json()["character_count"] - before == billed


async def test_empty_text_list_is_refused(client: httpx.AsyncClient) -> None:
    assert "'text'" in await problem(client, text=[])


async def test_multipart_form_is_read(client: httpx.AsyncClient) -> None:
    fields = {name: (None, value) for name, value in {"text": "eins", "target_lang": "en"}.items()}
    response = await client.post(TRANSLATE, files=fields)
    assert response.json()["translations"][0]["text"] == "EINS"


async def test_the_query_string_of_a_get_is_read(client: httpx.AsyncClient) -> None:
    query = {"auth_key": "any", "text": "hallo", "source_lang": "DE", "target_lang": "EN"}
    response = await client.get(TRANSLATE, params=query)
    assert response.json()["translations"][0]["text"] == "HALLO"


@pytest.mark.parametrize(
    "options",
    [
        *({"target_lang": code} for code in ("EN", "en", "EN-US", "en-gb", "En_Us", "EN-AU")),
        {"context": "Ein Gruß.", "preserve_formatting": True, "tag_handling_version": "v2"},
        {"formality": "prefer_less", "show_billed_characters": False},
        {"formality": "default", "custom_instructions": [], "something_unknown": {"a": 1}},
        {"formality": None, "source_lang": "DE", "glossary_ids": []},
        {"model": "shout-de-en"},
    ],
)
async def test_target_variants_and_options_without_effect_are_accepted(
    client: httpx.AsyncClient, options: dict[str, Any]
) -> None:
    assert (await translations(client, **options))[0]["text"] == "HALLO"


@pytest.mark.parametrize("side", ["source_lang", "target_lang"])
async def test_unsupported_language_is_refused_by_name(
    client: httpx.AsyncClient, side: str
) -> None:
    message = await problem(client, **{side: "TLH"})
    assert f"Value for '{side}' not supported" in message
    assert "TLH" in message


async def test_a_missing_source_is_detected_for_each_text(client: httpx.AsyncClient) -> None:
    texts = ["Das ist ein deutscher Satz.", "Ceci est une phrase française."]
    response = await client.post(TRANSLATE, json={"text": texts, "target_lang": "EN"})
    found = [each["detected_source_language"] for each in response.json()["translations"]]
    assert found == ["DE", "FR"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["sentences"]),
        ({"split_sentences": "1"}, ["sentences"]),
        ({"split_sentences": 1}, ["sentences"]),
        ({"split_sentences": 0}, ["none"]),
        ({"split_sentences": "0"}, ["none"]),
        ({"split_sentences": "nonewlines"}, ["ignoring_lines"]),
        ({"tag_handling": "html"}, ["ignoring_lines"]),
        ({"tag_handling": "xml"}, ["sentences"]),
        ({"tag_handling": "html", "split_sentences": "1"}, ["sentences"]),
    ],
)
def test_split_sentences_selects_the_splitting(
    options: dict[str, Any], expected: list[str]
) -> None:
    parameters = TextParameters.model_validate(BODY | options, strict=True)
    assert [parameters.splitting] == expected


def test_tags_are_lists_or_comma_separated() -> None:
    options = {
        "tag_handling": "xml",
        "ignore_tags": "a, b",
        "splitting_tags": ["par", "title,x"],
        "non_splitting_tags": ["Inline"],
        "outline_detection": False,
    }
    markup = TextParameters.model_validate(BODY | options, strict=True).markup
    assert (markup.kind, markup.outline_detection) == ("xml", False)
    assert markup.ignore_tags == {"a", "b"}
    assert markup.splitting_tags == {"par", "title", "x"}
    assert markup.non_splitting_tags == {"Inline"}


def test_html_tag_names_are_lower_cased() -> None:
    options = {"tag_handling": "html", "ignore_tags": ["CODE"]}
    assert TextParameters.model_validate(BODY | options).markup.ignore_tags == {"code"}


async def test_tags_are_kept_and_ignored_tags_keep_their_content(client: httpx.AsyncClient) -> None:
    text = 'hallo <b>welt</b> <x id="7"></x> und <code>dies</code>'
    for kind in ("html", "xml"):
        found = await translations(client, text=[text], tag_handling=kind, ignore_tags=["code"])
        assert '<x id="7"></x>' in found[0]["text"]
        assert "<code>dies</code>" in found[0]["text"]
        assert found[0]["text"].count("<b>") == found[0]["text"].count("</b>") == 1


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"formality": "rude"}, "formality"),
        ({"split_sentences": "2"}, "split_sentences"),
        ({"tag_handling": "markdown"}, "tag_handling"),
        ({"outline_detection": "perhaps"}, "outline_detection"),
        ({"model_type": "magic"}, "model_type"),
        ({"text": [1]}, "text"),
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": "wide"}, "beam_size"),
    ],
)
async def test_invalid_option_is_refused_by_name(
    client: httpx.AsyncClient, options: dict[str, Any], name: str
) -> None:
    assert f"'{name}" in await problem(client, **options)


@pytest.mark.parametrize("name", ["text", "target_lang"])
async def test_a_missing_field_is_named(client: httpx.AsyncClient, name: str) -> None:
    fields = {key: value for key, value in BODY.items() if key != name}
    message = await refused(client.post(TRANSLATE, json=fields))
    assert message == f"Parameter '{name}' not specified."


@pytest.mark.parametrize("asked", ["quality_optimized", "prefer_quality_optimized"])
async def test_model_type_used_is_returned_on_request(
    client: httpx.AsyncClient, asked: str
) -> None:
    found = await translations(client, model_type=asked)
    assert found[0]["model_type_used"] == "quality_optimized"


def test_latency_optimized_is_greedy_unless_beam_size_is_given() -> None:
    quick = {"model_type": "latency_optimized"}
    assert TextParameters.model_validate(BODY | quick).decoding.beam_size == 1
    wide = quick | {"beam_size": 4}
    assert TextParameters.model_validate(BODY | wide).decoding.beam_size == 4
    assert TextParameters.model_validate(BODY).decoding.beam_size is None


async def test_decoding_options_of_the_root_api_apply(client: httpx.AsyncClient) -> None:
    found = await translations(client, num_hypotheses=2, beam_size=2, return_scores=True)
    assert found[0]["alternatives"]
    assert found[0]["score"] < 0
    (cut,) = await translations(client, max_decoding_length=2)
    assert (cut["text"], cut["truncated"]) == ("HA", True)


async def test_unknown_model_returns_404_and_is_named(client: httpx.AsyncClient) -> None:
    unknown = client.post(TRANSLATE, json=BODY | {"model": "whisper"})
    assert "whisper" in await refused(unknown, 404)


async def test_a_form_may_repeat_its_fields_a_thousand_times(client: httpx.AsyncClient) -> None:
    texts = urlencode([("text", "ja")] * 50)
    many = urlencode([("ignore_tags", "x")] * 1000)
    answer = await client.post(
        TRANSLATE,
        content=f"{texts}&{many}&target_lang=EN&source_lang=DE",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 200
    assert len(answer.json()["translations"]) == 50


async def test_ignored_deepl_fields_are_listed(client: httpx.AsyncClient) -> None:
    asked = {
        **{"formality": "more", "context": "Sport", "style_id": "a", "translation_memory_id": "b"},
        "custom_instructions": ["be brief"],
    }
    (named,) = await translations(client, **asked)
    assert (named["text"], sorted(named["ignored"])) == ("HALLO", sorted(asked))
    (plain,) = await translations(client, formality="default")
    assert "ignored" not in plain


@given(st.binary(max_size=60))
def test_body_that_is_no_json_object_raises_bad_request(body: bytes) -> None:
    with suppress(BadRequest):
        assert isinstance(json_object(body), dict)


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=5))
def test_form_texts_are_read_unchanged(texts: list[str]) -> None:
    form = urlencode([("text", text) for text in texts]).encode()
    assert collected(form_pairs(form), DEEPL)["text"] == texts
