"""Table of requests and their answers, in both dialects, with models that upper-case their input.

``…`` in an answer matches anything; see ``tests.support.fitting``.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.api.answers import DE_EN, answered
from tests.support.fitting import fits

DONE = {"finish_reason": "complete", "truncated": False}
PLAIN = {"model": "shout-de-en", **DONE}
CUT = {"model": "shout-de-en", "finish_reason": "length", "truncated": True}
SAME = {"model": None, **DONE}
OTHERS = {"…": "…"}
NONE_SEEN = {"words": [], "mean": None, "lowest": None, "sentences": []}
GERMAN, FRENCH = {"language": "de", "confidence": "…"}, {"language": "fr", "confidence": "…"}
UNKNOWN = {"language": "en", "confidence": 0.0}


def same(text: str, **fields: Any) -> dict[str, Any]:
    """An answer of ``POST /translate`` to one text."""
    return {"translatedText": text, **(PLAIN | fields)}


def each(*texts: str, **fields: Any) -> dict[str, Any]:
    """An answer of ``POST /translate`` to several texts."""
    return {"translatedText": [*texts], **{k: [v] * len(texts) for k, v in PLAIN.items()}, **fields}


TRANSLATE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"q": "hallo"}, same("HALLO")),
    ({"q": ["ja", "", "nein"]}, each("JA", "", "NEIN")),
    ({"q": "a < b"}, same("A < B")),
    ({"q": "a", "source": "DE", "target": "En"}, same("A")),
    ({"q": "a", "target": "de"}, same("a", **SAME)),
    ({"q": "das ist gut", "source": "DE-at", "target": "EN-US"}, same("DAS IST GUT")),
    (
        {"q": "das ist ein guter tag", "source": "auto", "target": "en_GB"},
        same("DAS IST EIN GUTER TAG", detectedLanguage=GERMAN),
    ),
    ({"q": "a", "api_key": "x", "secret": "y", "formality": "more", "format": "text"}, same("A")),
    ({"q": "a", "format": "", "alternatives": "1", "api_key": "", "beam_size": 2.0}, {**OTHERS}),
    ({"q": "a", "beam_size": None}, same("A")),
    ({"q": "a", "alternatives": "", "prefix": "", "model": ""}, same("A")),
    ({"q": "ab", "alternatives": 2}, same("AB", alternatives=["Ab", "aB"])),
    ({"q": ["ab", "!"], "alternatives": 2}, each("AB", "!", alternatives=[["Ab", "aB"], []])),
    (
        {"q": ["Das ist ein sehr schöner Tag.", "Très belle journée.", "🎉"], "source": "auto"},
        each(
            *("DAS IST EIN SEHR SCHöNER TAG.", "TRèS BELLE JOURNéE.", "🎉"),
            model=["shout-de-en", "shout-fr-en", None],
            detectedLanguage=[GERMAN, FRENCH, UNKNOWN],
        ),
    ),
    (
        {"q": ["Das ist ein kleines Haus.", "他在雪地里跑"], "source": "auto"},
        {
            "translatedText": ["DAS IST EIN KLEINES HAUS.", "他在雪地里跑"],
            "undetected": [1],
            "detectedLanguage": [GERMAN, UNKNOWN],
            **OTHERS,
        },
    ),
    (
        {"q": "ab", "beam_size": 3, "num_hypotheses": 2, "length_penalty": 0.5},
        same("AB", alternatives=["Ab"]),
    ),
    ({"q": "abcdef", "max_decoding_length": 3}, same("ABC", **CUT)),
    (
        {"q": ["abcdef", "ab"], "max_decoding_length": 3},
        each("ABC", "AB", finish_reason=["length", "complete"], truncated=[True, False]),
    ),
    (
        {"q": "ab", "alternatives": 1, "return_scores": True},
        same("AB", alternatives=["Ab"], scores=[-0.034, -1.017]),
    ),
    (
        {"q": ["ab", "!?", ""], "beam_size": 1, "return_scores": True},
        each("AB", "!?", "", scores=[[-0.034], [None], [None]]),
    ),
    ({"q": "a", "target": "de", "return_scores": True}, same("a", **SAME, scores=[None])),
    ({"q": "a", "target": "de", "confidence": True}, same("a", **SAME, confidence=None)),
    ({"q": ["", "!?"], "confidence": True}, each("", "!?", confidence=[NONE_SEEN] * 2)),
    (
        {"q": "ab", "timings": True},
        same("AB", timings={name: "…" for name in ("preparing", "queued", "decoding", "total")}),
    ),
    ({"q": "ab", "attention": True}, same("AB", id="…")),
    *(
        ({"q": ["die wiese", "ein haus"], "glossary": terms}, each("…LAWN…", "EIN HAUS"))
        for terms in ({"wiese": "LAWN"}, "wiese\tLAWN", "\nwiese\tLAWN\r\n")
    ),
    (
        {"q": "die <b>wiese</b>", "glossary": {"wiese": "LAWN"}, "format": "html"},
        same("…LAWN…"),
    ),
    ({"q": "die wiese", "glossary": {}}, same("DIE WIESE")),
    ({"q": "die wiese", "glossary": ""}, same("DIE WIESE")),
    (
        {"q": "ab cd", "return_alternatives": True, "num_hypotheses": 2},
        same("AB CD", alternatives=["aB CD"]),
    ),
    (
        {
            **{"q": "ab cd", "return_alternatives": True, "num_hypotheses": 2},
            "target_prefix": "Ab ",
        },
        same("Ab CD", alternatives=["Ab cD"]),
    ),
    (
        {
            **{"q": "ab cd", "return_alternatives": True, "num_hypotheses": 2},
            "min_alternative_expansion_prob": 0.5,
        },
        same("AB CD", alternatives=[]),
    ),
    (
        {"q": "ab.\ncd.", "return_alternatives": True, "num_hypotheses": 2},
        same("AB.\nCD.", alternatives=["aB.\nCD."]),
    ),
]


async def test_fields_of_a_translation_decide_its_answer(client: httpx.AsyncClient) -> None:
    for fields, expected in TRANSLATE:
        answer = await answered(client.post("/translate", json={**DE_EN, **fields}))
        assert fits(answer, expected), (fields, answer)


FORM = {"content-type": "application/x-www-form-urlencoded"}
SIZE = {"q": "größe", **DE_EN}
SHAPES: list[dict[str, Any]] = [
    {"json": SIZE},
    {"data": SIZE},
    {"params": SIZE},
    {"params": DE_EN, "data": {"q": "größe"}},
    {"files": {name: (None, value) for name, value in SIZE.items()}},
    {"content": "q=größe&source=de&target=en".encode(), "headers": FORM},
    {"content": json.dumps(SIZE), "headers": {"content-type": "application/json; charset=utf-8"}},
    {"data": {**SIZE, "beam_size": "2"}},
]


async def test_fields_are_read_from_every_request_format(client: httpx.AsyncClient) -> None:
    for sent in SHAPES:
        answer = await answered(client.post("/translate", **sent))
        assert answer["translatedText"] == "GRößE", sent
    terms = {"q": "die wiese", **DE_EN, "glossary": "wiese\tLAWN\r\n"}
    assert "LAWN" in (await answered(client.post("/translate", data=terms)))["translatedText"]
    lines = {"q": "a\r\nb", **DE_EN, "max_decoding_length": "2"}
    assert (await answered(client.post("/translate", data=lines)))["translatedText"] == "A\nB"


DEEPL = {"text": ["hallo"], "source_lang": "DE", "target_lang": "EN-US"}
HALLO = {"detected_source_language": "DE", "text": "HALLO", "billed_characters": 5}
IGNORED = {
    **{"context": "Sport", "formality": "more", "style_id": "a"},
    "custom_instructions": ["be brief"],
}
V2_TRANSLATE: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    *(
        (fields, [{**HALLO, "truncated": False}])
        for fields in (
            *({"target_lang": code} for code in ("EN", "en", "EN-US", "en-gb", "En_Us", "EN-AU")),
            {"preserve_formatting": True, "tag_handling_version": "v2"},
            {"formality": "default", "custom_instructions": [], "something_unknown": {"a": 1}},
            {"formality": None, "glossary_ids": []},
            {"model": "shout-de-en"},
        )
    ),
    (
        {"context": "Ein Gruß.", "formality": "prefer_less", "show_billed_characters": False},
        [{"text": "HALLO", **OTHERS}],
    ),
    (
        {"text": ["eins", "", "  zwei\n\ndrei ", "vier"]},
        [
            {"text": text.upper(), "billed_characters": len(text), **OTHERS}
            for text in ("eins", "", "  zwei\n\ndrei ", "vier")
        ],
    ),
    *(
        ({"text": [text], "tag_handling": kind}, [{"billed_characters": billed, **OTHERS}])
        for text, kind, billed in (
            ('<h1 style="color:red;">This is an important title</h1>', "html", 26),
            ("<h1>This is an important title</h1>", "xml", 26),
            ("<!-- none --><p>a &lt; b<br/></p>", "html", 8),
            ("<ä:ö>1</ä:ö>", "xml", 1),
            ("a < b, c > d", "html", 12),
            ("<b>a</b>", None, 8),
        )
    ),
    (
        {"source_lang": None, "text": ["Das ist ein Satz.", "Ceci est une phrase."]},
        [{"detected_source_language": code, **OTHERS} for code in ("DE", "FR")],
    ),
    (
        {"source_lang": None, "text": ["Das ist ein kleines Haus.", "他在雪地里跑"]},
        [
            {
                **{"text": "DAS IST EIN KLEINES HAUS.", "detected_source_language": "DE"},
                **{"billed_characters": 25, "truncated": False},
            },
            {"text": "他在雪地里跑", "undetected": True, **OTHERS},
        ],
    ),
    *(
        ({"model_type": asked}, [{"model_type_used": "quality_optimized", **OTHERS}])
        for asked in ("quality_optimized", "prefer_quality_optimized")
    ),
    (
        {"num_hypotheses": 2, "beam_size": 2, "return_scores": True},
        [{"alternatives": ["…", "…"], "score": "-…", **OTHERS}],
    ),
    ({"max_decoding_length": 2}, [{"text": "HA", "truncated": True, **OTHERS}]),
    (IGNORED, [{"text": "HALLO", "ignored": [*IGNORED], **OTHERS}]),
]


async def test_fields_of_a_deepl_translation_decide_its_answer(client: httpx.AsyncClient) -> None:
    for fields, expected in V2_TRANSLATE:
        answer = await answered(client.post("/v2/translate", json={**DEEPL, **fields}))
        assert fits(answer, {"translations": expected}), (fields, answer)
    forms: list[dict[str, Any]] = [
        {"files": {"text": (None, "eins"), "target_lang": (None, "en")}},
        {"data": {"text": "eins", "target_lang": "EN"}},
    ]
    for sent in forms:
        answer = await answered(client.post("/v2/translate", **sent))
        assert answer["translations"][0]["text"] == "EINS"
    query = {"auth_key": "any", "text": "eins", "source_lang": "DE", "target_lang": "EN"}
    answer = await answered(client.get("/v2/translate", params=query))
    assert answer["translations"][0]["text"] == "EINS"
