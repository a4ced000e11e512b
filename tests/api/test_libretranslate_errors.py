from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.bootstrap import Service
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.result_cache import ResultCache
from service.translation.errors import Overloaded
from tests.api.answers import DE_EN, JSON, as_ascii_json, refused

MISSING = "Invalid request: missing {} parameter"
BAD = [
    ({**DE_EN}, MISSING.format("q")),
    ({"q": "", **DE_EN}, MISSING.format("q")),
    ({"q": [], **DE_EN}, MISSING.format("q")),
    ({"q": None, **DE_EN}, MISSING.format("q")),
    ({"q": "a", "target": "en"}, MISSING.format("source")),
    ({"q": "a", "source": "de"}, MISSING.format("target")),
    ({"q": 5, **DE_EN}, "Invalid request: q parameter must be a text or a list of texts"),
    ({"q": {"a": 1}, **DE_EN}, "Invalid request: q parameter must be a text or a list of texts"),
    ({"q": ["a", 1], **DE_EN}, "Invalid request: q parameter must be a text or a list of texts"),
    ({"q": "a", "source": 5, "target": "en"}, "Invalid request: source parameter"),
    ({"q": "a", "source": "zz", "target": "en"}, "zz is not supported"),
    ({"q": "a", "source": "de", "target": "tlh!"}, "tlh! is not supported"),
    ({"q": "a", "source": "\ud800", "target": "en"}, "Invalid request: source parameter"),
    (
        {"q": "a", "source": "x" * 65, "target": "en"},
        "Invalid request: source parameter must have at most 64 characters",
    ),
    (
        {"q": "a", "source": "de", "target": "fr"},
        "French (fr) is not available as a target language from German (de); "
        "on offer: English (en)",
    ),
    ({"q": "?!", "source": "auto", "target": "zz"}, "zz is not supported"),
    (
        {"q": ["a", "b"], "prefix": "A", **DE_EN},
        "Invalid request: prefix parameter is allowed with one text only; q has 2 texts",
    ),
    (
        {"q": "x" * 5001, **DE_EN},
        "Invalid request: request (5001) exceeds text limit (5000), counted in characters",
    ),
    (
        {"q": ["a"] * 61, **DE_EN},
        "Invalid request: request (61) exceeds text limit (60), counted in texts",
    ),
    ({"q": "\ud83d", **DE_EN}, "text 1 is not valid Unicode: it has a lone surrogate"),
    (
        {"q": "a", "prefix": "\ud83d", **DE_EN},
        "prefix is not valid Unicode: it has a lone surrogate",
    ),
    ({"q": ["a", "\ud83d"], **DE_EN}, "text 2 is not valid Unicode: it has a lone surrogate"),
]
BAD_OPTIONS = [
    ({"format": "x" * 9999}, "x" * 40 + " format is not supported"),
    ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
    (
        {"alternatives": -1},
        "Invalid request: alternatives parameter must be greater than or equal to 0",
    ),
    ({"alternatives": 4}, "Invalid request: alternatives parameter must be at most 3"),
    ({"keep_figures": "sometimes"}, "Invalid request: keep_figures parameter"),
    ({"stream": "yes"}, "Invalid request: stream parameter must be a valid b"),
    ({"api_key": 5}, "Invalid request: api_key parameter must be a valid str"),
    ({"model": ""}, "Invalid request: model parameter"),
    (
        {"model": "shout-en-de"},
        "English (en) is not available as a target language from German (de) with shout-en-de",
    ),
    ({"alternatives": "9" * 5_000}, "Invalid request: alternatives parameter is not a number"),
    ({"beam_size": True}, "Invalid request: beam_size parameter must be a number"),
    ({"beam_size": 0}, "Invalid request: beam_size parameter must be greater"),
    ({"beam_size": 9}, "beam_size is 9; this model is loaded for at most 4"),
    (
        {"beam_size": 1, "num_hypotheses": 2},
        "num_hypotheses must not be larger than beam_size * patience",
    ),
    ({"length_penalty": "long"}, "Invalid request: length_penalty parameter"),
    ({"length_penalty": 99}, "Invalid request: length_penalty parameter must"),
    ({"max_decoding_length": 0}, "Invalid request: max_decoding_length"),
    (
        {"suppress_sequences": ["a", ""]},
        "Invalid request: suppress_sequences parameter: each text must have at least 1 character",
    ),
    (
        {"suppress_sequences": ["a" * 600, "b" * 600]},
        "Invalid request: suppress_sequences parameter must have at most 1000 characters together",
    ),
    (
        {"glossary": {"": "a"}},
        "Invalid request: glossary parameter: each text must have at least 1 character",
    ),
    ({"glossary": ["a"]}, "Invalid request: glossary parameter must be a valid dictionary"),
]


@pytest.mark.parametrize(
    ("body", "error"),
    [*BAD, *(({"q": "a", **DE_EN, **options}, error) for options, error in BAD_OPTIONS)],
)
async def test_invalid_request_returns_400_with_the_reason(
    client: httpx.AsyncClient, body: dict[str, Any], error: str
) -> None:
    message = await refused(client.post("/translate", **as_ascii_json(body)))
    assert message.encode("utf-8", "backslashreplace").decode().startswith(error)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'"q"',
        b"null",
        b"[" * 60_000,
        b'{"q": "\xff"}',
        b'{"q": ' + b"1" * 5000 + b"}",
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    client: httpx.AsyncClient, content: bytes
) -> None:
    message = await refused(client.post("/translate", content=content, headers=JSON))
    assert message.startswith("Invalid JSON format")


@pytest.mark.parametrize(
    ("content", "content_type", "error"),
    [
        (b"q=%ff", "application/x-www-form-urlencoded", "the parameters are not UTF-8"),
        (b"q=a&" * 5000, "application/x-www-form-urlencoded", "more than 4000 parameters"),
        (b"q=a", "multipart/form-data", "Missing boundary"),
        (b"x", "multipart/form-data; boundary=y", ""),
        (b"q=a", "text/plain", "missing q parameter"),
        (b'{"q":"a"}', "application/x-www-form-urlencoded", "send it with content-type appli"),
        (b'{"q":"a"}', "", "the body looks like JSON"),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(
    client: httpx.AsyncClient, content: bytes, content_type: str, error: str
) -> None:
    headers = {"content-type": content_type}
    assert error in await refused(client.post("/translate", content=content, headers=headers))


async def test_uploaded_file_in_place_of_text_is_refused(client: httpx.AsyncClient) -> None:
    asked = client.post("/translate", data=DE_EN, files={"q": ("q.txt", b"a")})
    assert "q parameter is a file" in await refused(asked)


async def test_unknown_model_returns_404(client: httpx.AsyncClient) -> None:
    asked = client.post("/translate", json={"q": "a", **DE_EN, "model": "whisper"})
    message = await refused(asked, 404)
    assert message.startswith("there is no model whisper; on offer: shout-de-en")


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_encoded_body_is_refused_by_name(client: httpx.AsyncClient, encoding: str) -> None:
    headers = {**JSON, "content-encoding": encoding}
    assert encoding in await refused(
        client.post("/translate", content=b"\x1f\x8b", headers=headers)
    )


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        ("json", {"format": ""}),
        ("json", {"alternatives": "1"}),
        ("json", {"api_key": ""}),
        ("json", {"beam_size": 2.0}),
        ("json", {"beam_size": None}),
        ("data", {"beam_size": "2"}),
    ],
)
async def test_empty_format_and_key_and_numbers_of_other_types_are_read(
    client: httpx.AsyncClient, shape: str, fields: dict[str, Any]
) -> None:
    response = await client.post("/translate", **{shape: {"q": "a", **DE_EN, **fields}})
    assert (response.status_code, response.json()["translatedText"]) == (200, "A")


async def test_overload_returns_503_with_retry_after(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise Overloaded

    monkeypatch.setattr(ResultCache, "decode", full)
    response = await client.post("/translate", json={"q": "a", **DE_EN})
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.json()["error"].startswith("too much is being translated")


async def test_stopped_engine_returns_503(client: httpx.AsyncClient, service: Service) -> None:
    model: LoadedModel = service.repository.catalogue.models[0]
    await model.engine.close()
    message = await refused(client.post("/translate", json={"q": "a", **DE_EN}), 503)
    assert message == "the engine is not running"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/translate"),
        ("POST", "/languages"),
        ("GET", "/detect"),
        ("POST", "/health"),
        ("POST", "/spec"),
        ("GET", "/translate_file"),
        ("GET", "/suggest"),
        ("POST", "/frontend/settings"),
        ("DELETE", "/models"),
    ],
)
async def test_wrong_method_returns_405_with_an_error_body(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await client.request(method, path)
    assert (response.status_code, response.json()) == (405, {"error": "Method Not Allowed"})
    assert "allow" in response.headers


async def test_unknown_path_returns_404_with_an_error_body(client: httpx.AsyncClient) -> None:
    assert await refused(client.get("/nowhere"), 404) == "Not Found"
