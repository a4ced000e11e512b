"""Table of requests that are refused, by route: what is wrong, and a part of the message.

Each route has a request that would be answered, of which a row changes fields; ``...`` removes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

from service.api.errors import EXPECTED, REFUSALS
from service.api.fields.bounds import (
    FILENAME_CHARACTERS,
    LANGUAGE_CHARACTERS,
    NAME_CHARACTERS,
    PREFIX_CHARACTERS,
    SUPPRESSED_CHARACTERS,
    SUPPRESSED_TEXTS,
    TAG_CHARACTERS,
    TAGS,
    TERM_CHARACTERS,
    TERMS,
)
from tests.api.answers import DE_EN, as_ascii_json, refused

Row = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, int]
"""Changed fields, a part of the message, and the status unless it is 400."""

DEEPL = {"source_lang": "DE", "target_lang": "EN"}
PAIR = {**DE_EN, "source_text": "ja, das", "target_text": "JA, DAS"}
DICTIONARY = {**DEEPL, "entries": "wiese\tLAWN", "entries_format": "tsv"}
ANSWERED: dict[str, dict[str, Any]] = {
    "/translate": {"q": "a", **DE_EN},
    "/v2/translate": {"text": ["hallo"], **DEEPL},
    "/detect": {"q": "a"},
    "/suggest": {"q": "Ein Hund.", "s": "A dog.", **DE_EN},
    "/alternatives": {"q": "zu ab", "position": 0, **DE_EN},
    "/sentences": {"q": "zu ab", **DE_EN},
    "/attention": PAIR,
    "/score": PAIR,
    "/v2/glossaries": {"name": "Wiesen", **DICTIONARY},
    "/v3/glossaries": {"name": "x", "dictionaries": [DICTIONARY]},
}
NO_TEXT, NO_UNICODE = "q parameter must be a text or a list of texts", "is not valid Unicode"
LONG_CHARACTERS = {"q": "x" * 5001}, "request (5001) exceeds text limit (5000), counted in char"
MANY_TEXTS = {"q": ["a"] * 61}, "request (61) exceeds text limit (60), counted in texts"
GIVEN_TEXTS: list[Row] = [
    ({"source": None}, "missing source parameter"),
    ({"target_text": None}, "target_text parameter"),
    ({"source": "zz"}, "zz is not supported"),
    ({"source": "en", "target": "fr"}, "not available as a target language"),
    ({"source": "en", "target": "en"}, "not available as a target language"),
    ({"source": "fr", "target": "de"}, "on offer: English (en)"),
    ({"model": "missing"}, "there is no model missing; on offer: shout-de-en", 404),
    ({"model": "shout-fr-en"}, "with shout-fr-en"),
    ({"source_text": "x" * 70}, "sentence has 71 tokens; the model reads at most 64", 413),
    ({"target_text": "x" * 99}, "translation has 100 tokens; the model writes at most 96", 413),
    ({"source_text": "x" * 5001}, "exceeds text limit (5000)"),
    ({"source_text": "\ud800"}, NO_UNICODE),
    ({"source_text": 1}, "source_text parameter"),
]
REFUSED: dict[str, list[Row]] = {
    "/translate": [
        *(({"q": q}, "Invalid request: missing q parameter") for q in (..., None, "", [])),
        ({"source": ...}, "missing source parameter"),
        ({"target": ...}, "missing target parameter"),
        *(({"q": q}, NO_TEXT) for q in (5, {"a": 1}, ["a", 1])),
        ({"source": 5}, "source parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "tlh!"}, "tlh! is not supported"),
        ({"source": "\ud800"}, "source parameter"),
        ({"source": "x" * (LANGUAGE_CHARACTERS + 1)}, "source parameter must have at most 64"),
        ({"target": "fr"}, "not available as a target language from German (de); on offer: Engl"),
        ({"q": "?!", "source": "auto", "target": "zz"}, "zz is not supported"),
        ({"q": ["a", "b"], "prefix": "A"}, "prefix parameter is allowed with one text only"),
        LONG_CHARACTERS,
        MANY_TEXTS,
        ({"q": "\ud83d"}, f"text 1 {NO_UNICODE}"),
        ({"q": ["a", "\ud83d"]}, f"text 2 {NO_UNICODE}"),
        ({"prefix": "\ud83d"}, f"prefix {NO_UNICODE}"),
        ({"q": "他在雪地里跑", "source": "auto"}, "detected"),
        ({"format": "x" * 9999}, "x" * 40 + " format is not supported"),
        ({"alternatives": "many"}, "alternatives parameter is not a whole number"),
        ({"alternatives": "9" * 5_000}, "alternatives parameter is not a whole number"),
        ({"alternatives": -1}, "alternatives parameter must be greater than or equal to 0"),
        ({"alternatives": 4}, "alternatives parameter must be at most 3"),
        ({"keep_figures": "sometimes"}, "keep_figures parameter"),
        ({"stream": "yes"}, "stream parameter must be a valid b"),
        ({"api_key": 5}, "api_key parameter must be a valid str"),
        ({"api_key": "x" * (NAME_CHARACTERS + 1)}, " api_key parameter"),
        ({"model": "x" * 201}, "model parameter"),
        ({"model": "x" * (NAME_CHARACTERS + 1)}, " model parameter"),
        ({"model": "shout-en-de"}, "from German (de) with shout-en-de"),
        ({"model": "whisper"}, "there is no model whisper; on offer: shout-de-en", 404),
        ({"beam_size": True}, "beam_size parameter must be a number"),
        ({"beam_size": 2.5}, "beam_size parameter is not a whole number"),
        ({"beam_size": 0}, "beam_size parameter must be greater"),
        ({"beam_size": 9}, "beam_size is 9; this model is loaded for at most 4"),
        ({"beam_size": 1, "num_hypotheses": 2}, "must not be larger than beam_size * patience"),
        ({"target": "de", "num_hypotheses": 5}, "at most 4"),
        ({"length_penalty": "long"}, "length_penalty parameter"),
        ({"length_penalty": 99}, "length_penalty parameter must"),
        ({"max_decoding_length": 0}, "max_decoding_length"),
        ({"target_prefix": "x" * (PREFIX_CHARACTERS + 1)}, " target_prefix parameter"),
        ({"suppress_sequences": ["a", ""]}, "each text must have at least 1 character"),
        ({"suppress_sequences": ["x"] * (SUPPRESSED_TEXTS + 1)}, " suppress_sequences parameter"),
        (
            {"suppress_sequences": ["x" * (SUPPRESSED_CHARACTERS // 2 + 1)] * 2},
            "suppress_sequences parameter must have at most 1000 characters together",
        ),
        ({"q": "<b>a</b>", "format": "html", "confidence": True}, "confidence parameter is for pl"),
        *(({"stream": True, **row}, "") for row in ({"target": "zz"}, {"q": ""})),
        ({"stream": True, "model": "zz"}, "zz", 404),
        ({"glossary": "wiese LAWN"}, "glossary parameter: line 1"),
        ({"glossary": "a\tb\na\tc"}, "glossary parameter: line 2"),
        ({"glossary": {"wiese": " LAWN"}}, "glossary parameter: entry 1"),
        ({"glossary": {"a\nb": "c"}}, "glossary parameter: entry 1"),
        ({"glossary": {"": "a"}}, "glossary parameter: each text must have at least 1 character"),
        ({"glossary": ["a"]}, "glossary parameter must be a valid dictionary"),
        ({"glossary": {"wiese": 1}}, "glossary parameter"),
        ({"glossary": {str(n): "word" for n in range(TERMS + 1)}}, f"{TERMS:,}"),
        ({"glossary": "\n".join(f"{n}\tword" for n in range(TERMS + 1))}, f"{TERMS:,}"),
        ({"glossary": {f"{n:04}": "x" * 50 for n in range(TERMS)}}, f"{TERM_CHARACTERS:,}"),
        ({"glossary": "x" * (TERM_CHARACTERS + 1)}, f"{TERM_CHARACTERS:,}"),
        ({"glossary": {"a": "b"}, "confidence": True}, "glossary"),
        ({"glossary": {"a": "b"}, "return_alternatives": True}, "glossary"),
        ({"return_alternatives": True, "num_hypotheses": 1000}, "is loaded for at most 4"),
        ({"return_alternatives": True, "min_alternative_expansion_prob": 1.5}, "expansion_prob"),
        ({"return_alternatives": True, "min_alternative_expansion_prob": 1.0}, "the likeliest nex"),
        (
            {"return_alternatives": True, "prefix_bias_beta": 0.5, "target_prefix": "A"},
            "excludes prefix_bias_beta",
        ),
    ],
    "/v2/translate": [
        ({"text": ...}, "Parameter 'text' not specified."),
        ({"target_lang": ...}, "Parameter 'target_lang' not specified."),
        ({"text": []}, "'text'"),
        ({"text": [1]}, "'text"),
        ({"text": ["\ud800"]}, "surrogate"),
        *(({s: "TLH"}, f"Value for '{s}' not supported") for s in ("source_lang", "target_lang")),
        ({"target_lang": "x" * (LANGUAGE_CHARACTERS + 1)}, "'target_lang"),
        ({"formality": "rude"}, "'formality"),
        ({"split_sentences": "2"}, "'split_sentences"),
        ({"split_sentences": False}, "it should be '0'"),
        ({"tag_handling": "markdown"}, "'tag_handling"),
        ({"outline_detection": "perhaps"}, "'outline_detection"),
        ({"model_type": "magic"}, "'model_type"),
        ({"model": "whisper"}, "whisper", 404),
        ({"beam_size": 0}, "'beam_size"),
        ({"beam_size": "wide"}, "'beam_size"),
        ({"target_lang": "DE", "num_hypotheses": 5}, "at most 4"),
        ({"custom_instructions": ["x" * 301]}, "'custom_instructions"),
        ({"ignore_tags": ["x"] * (TAGS + 1)}, "'ignore_tags"),
        ({"ignore_tags": "x" * (TAG_CHARACTERS + 1)}, "'ignore_tags"),
        ({"glossary_id": "x" * (NAME_CHARACTERS + 1)}, "'glossary_id"),
        ({"glossary_id": "9a3c1a5e-0000-4000-8000-000000000000"}, "no glossary", 404),
        ({"glossary_ids": ["a"] * 6}, "no glossary a", 404),
    ],
    "/detect": [
        ({"q": ...}, "missing q parameter"),
        ({"q": ""}, "missing q parameter"),
        ({"q": 5}, NO_TEXT),
        LONG_CHARACTERS,
        MANY_TEXTS,
        *(({"q": q}, f"text 1 {NO_UNICODE}") for q in ("\ud83d", "Das ist \ud83d gut")),
    ],
    "/suggest": [
        *(({name: ""}, f"missing {name} parameter") for name in ANSWERED["/suggest"]),
        ({"s": " "}, "Invalid request: s parameter"),
        ({"s": "x" * 10_001}, "Invalid request: s parameter"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "auto"}, "auto is not supported"),
    ],
    "/alternatives": [
        ({"position": 1}, "position 1 is not the beginning of a word; words begin at 0, 3"),
        ({"position": 5}, "position 5 is not"),
        ({"position": -1}, "position parameter"),
        ({"position": True}, "position parameter"),
        ({"limit": 0}, "limit parameter"),
        ({"limit": 21}, "limit parameter"),
        ({"min_probability": 1.1}, "min_probability parameter"),
        ({"translation": " "}, "it has no words"),
        ({"translation": "x" * 6000}, "exceeds text limit"),
        ({"translation": "\ud800"}, NO_UNICODE),
        ({"target": "de"}, "source and target are both de"),
        ({"position": 200, "translation": "x " * 120}, "has 199 tokens in one sentence"),
        ({"q": "zu ab\n12", "position": 6}, "is in a part of the translation that is copied"),
        ({"source": "fr", "target": "de"}, "need a model that translates fr-de directly"),
    ],
    "/sentences": [
        ({"q": ...}, "missing q parameter"),
        ({"q": ["a"]}, "q parameter"),
        LONG_CHARACTERS,
        ({"q": "\ud83d"}, f"text 1 {NO_UNICODE}"),
        ({"q": "他在雪地里跑", "source": "auto"}, "detected"),
        ({"q": "x" * 70}, "the model reads at most 64", 413),
        ({"model": "whisper"}, "there is no model whisper", 404),
        ({"glossary": "wiese LAWN"}, "glossary parameter: line 1"),
    ],
    "/attention": [
        *GIVEN_TEXTS,
        *(({"head": head}, "head") for head in (True, 1.5, -1, [0])),
        ({"format": "png", "alignment": True}, "json only"),
    ],
    "/score": [
        *GIVEN_TEXTS,
        ({"source_text": ["a", "b"]}, "target_text has 1 texts, source_text has 2"),
        ({"target_text": ["A"] * 61}, "(61) exceeds text limit (60)"),
        # The source counts once for each target.
        ({"source_text": "a" * 400, "target_text": ["A"] * 13}, "(5213) exceeds text limit (5000)"),
    ],
    "/v2/glossaries": [
        ({"entries": ""}, "'entries' not specified"),
        ({"entries": "\n"}, "at least one entry"),
        ({"entries": "one\ttwo\tthree"}, "line 1"),
        ({"entries": "a\tb\na\tc"}, "line 2"),
        ({"entries_format": "xml"}, "entries_format"),
        ({"name": ""}, "name"),
        ({"source_lang": "TLH"}, "source_lang"),
        ({"source_lang": "FR", "target_lang": "DE"}, "glossaries are not supported for fr-de"),
    ],
    "/v3/glossaries": [({"dictionaries": [DICTIONARY] * 2}, "two dictionaries for de-en")],
}


async def test_invalid_fields_are_refused_by_name(suggesting: httpx.AsyncClient) -> None:
    for path, rows in REFUSED.items():
        for fields, part, *status in rows:
            body = {k: v for k, v in {**ANSWERED[path], **fields}.items() if v is not ...}
            message = await refused(suggesting.post(path, **as_ascii_json(body)), *status)
            assert part in message.encode("utf-8", "backslashreplace").decode(), (path, fields)


async def test_unchanged_requests_of_the_table_are_answered(suggesting: httpx.AsyncClient) -> None:
    for path, body in ANSWERED.items():
        assert (await suggesting.post(path, json=body)).is_success, path


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
BODIES = [
    *(
        ("/translate", JSON, body, "Invalid JSON format")
        for body in (b"{", b"[]", b'"q"', b"null", b"[" * 60_000, b'{"q": "\xff"}')
    ),
    ("/translate", JSON, b'{"q": ' + b"1" * 5000 + b"}", "Invalid JSON format"),
    ("/translate", FORM, b"q=%ff", "the parameters are not UTF-8"),
    ("/translate", FORM, b"q=a&" * 5000, "more than 4000 parameters"),
    ("/translate", FORM, b'{"q":"a"}', "send it with content-type appli"),
    ("/translate", "", b'{"q":"a"}', "the body looks like JSON"),
    ("/translate", "text/plain", b"q=a", "missing q parameter"),
    ("/translate", "multipart/form-data", b"q=a", "Missing boundary"),
    ("/translate", "multipart/form-data; boundary=y", b"x", ""),
    *(
        ("/v2/translate", JSON, body, "JSON")
        for body in (b"[]", b"{", b'"text"', b"\xff", b"[" * 60_000, b'{"text": "\\ud800"')
    ),
    ("/v2/translate", "", b'{"text": ["a"]}', "content-type application/json"),
    *(
        ("/attention", JSON, f'{json.dumps(PAIR)[:-1]}, "{field}": {number}}}'.encode(), field)
        for field in ("layer", "head")
        for number in ("Infinity", "-Infinity", "NaN", "1e400", "0.5")
    ),
]


async def test_bodies_that_cannot_be_read_are_refused(client: httpx.AsyncClient) -> None:
    for path, content_type, content, part in BODIES:
        asked = client.post(path, content=content, headers={"content-type": content_type})
        assert part in await refused(asked), (path, content_type, content[:40])
    for encoding in ("gzip", "br"):
        headers = {"content-type": JSON, "content-encoding": encoding}
        asked = client.post("/translate", content=b"\x1f\x8b", headers=headers)
        assert encoding in await refused(asked)
    file = client.post("/translate", data=DE_EN, files={"q": ("q.txt", b"a")})
    assert "q parameter is a file" in await refused(file)


UPLOADS: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("/translate_file", {}, {}, "missing file parameter"),
    ("/translate_file", {"other": ("a.txt", b"a")}, {}, "missing file parameter"),
    ("/translate_file", {"file": ("a.exe", b"a")}, {}, "file format not supported"),
    ("/translate_file", {"file": ("a", b"a")}, {}, "not supported; supported are .txt, .srt,"),
    ("/translate_file", {"file": ("a.txt", b"a")}, {"source": ""}, "missing source parameter"),
    ("/translate_file", {"file": ("a.txt", b"a")}, {"target": ""}, "missing target parameter"),
    ("/translate_file", {"file": ("a.txt", b"a")}, {"target": "zz"}, "zz is not supported"),
    ("/translate_file", {"file": ("a.txt", b"\x81")}, {}, "byte 0 is not UTF-8 text"),
    (
        "/translate_file",
        {"file": ("a.txt", b"a"), "more": ("b.txt", b"b")},
        {},
        "Too many files. Maximum number of files is 1",
    ),
    ("/v2/document", {}, {}, "'file'"),
    ("/v2/document", {"other": ("a.txt", b"x")}, {}, "'file'"),
    ("/v2/document", {"file": ("a.odg", b"a")}, {}, "files .odg are not supported"),
    ("/v2/document", {"file": ("a.invalid", b"a")}, {}, "Invalid file"),
    ("/v2/document", {"file": ("a", b"a")}, {}, "not supported"),
    ("/v2/document", {"file": ("a.docx", b"a")}, {}, ""),
    ("/v2/document", {"file": ("a.txt", b"a")}, {"output_format": "docx"}, "output_format"),
    ("/v2/document", {"file": ("a.txt", b"a")}, {"target_lang": "TLH"}, "target_lang"),
    ("/v2/document", {"file": ("a.txt", "語".encode())}, {"source_lang": ""}, "detected"),
    ("/v2/document", {"file": ("=?utf-8?B?w5xi!?=", b"a")}, {}, "is not Base64 of UTF-8"),
    ("/v2/document", {"file": ("=?utf-8?B?/w==?=", b"a")}, {}, "is not Base64 of UTF-8"),
    (
        "/v2/document",
        {"file": ("a.txt", b"a")},
        {"filename": "x" * (FILENAME_CHARACTERS + 1) + ".txt"},
        "'filename'",
    ),
]


async def test_files_that_cannot_be_translated_are_refused(client: httpx.AsyncClient) -> None:
    for path, files, fields, part in UPLOADS:
        asked = client.post(path, data={**DE_EN, **DEEPL, **fields}, files=files)
        assert part in await refused(asked), (path, files, fields)
    for host in ("evil.example/path?", "a b", "", "x@y", "h:99999999"):
        files = {"file": ("a.txt", b"eins")}
        asked = client.post("/translate_file", files=files, data=DE_EN, headers={"host": host})
        assert "Host" in await refused(asked)


LINES = [
    *(("GET", path, 405) for path in ("/translate", "/detect", "/translate_file", "/suggest")),
    *(("POST", path, 405) for path in ("/languages", "/health", "/spec", "/frontend/settings")),
    ("DELETE", "/models", 405),
    ("PUT", "/v2/translate", 405),
    *(("GET", path, 404) for path in ("/nowhere", "/v3/glossaries/%0Ax", "/v2/%0A", "/v2/nothing")),
    *(("POST", path, 404) for path in ("/v2/rephrase", "/v2/translate/")),
    *(("GET", path, 404) for path in ("/v3/style_rules", "/v2/glossaries/nonsense")),
    ("GET", "/v3/glossaries/9a3c1a5e-0000-4000-8000-000000000000", 404),
    ("POST", "/v2/document/nonsense", 400),
    ("POST", "/v2/document/nonsense?document_key=x", 404),
    ("POST", "/v2/translate", 400),
    ("GET", "/v2/languages?type=both", 400),
    *(("GET", f"/download_file/{name}", 404) for name in ("nothing.txt", "a%00b", "%FF")),
    *(
        ("GET", f"/download_file/{name}", 400)
        for name in ("%2E%2E%2Fsettings.py", "..%2F..%2Fetc%2Fpasswd", "..%5Cboot.ini")
    ),
    *(("GET", f"/translations/x{end}", 404) for end in ("", "/attention", "/alignment", "/search")),
    *(
        ("GET", f"/translations/x/{place}", 400)
        for place in (
            *("attention?kind=self", "attention?format=gif", "attention?text=-1"),
            *("attention?text=x", f"alignment?sentence={'9' * 30}", "alignment?format=png"),
            *("search?format=npy", f"search?leg={'9' * 30}"),
        )
    ),
]


async def test_paths_methods_and_queries_are_refused_with_a_message_alone(
    client: httpx.AsyncClient,
) -> None:
    for method, path, status in LINES:
        assert isinstance(await refused(client.request(method, path), status), str), path
        if status == 405:
            assert "allow" in (await client.request(method, path)).headers, path


def leaves_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    for child in kind.__subclasses__():
        yield child
        yield from leaves_of(child)


def test_every_error_a_caller_may_meet_has_a_status() -> None:
    known = {child for base in EXPECTED for child in leaves_of(base)}
    # Errors of commands are met by their users only.
    commands = {kind for kind in known if kind.__module__.startswith("service.commands.")}
    ours = {kind for kind in known if kind.__module__.startswith("service.")} - commands
    assert ours == set(REFUSALS)
