"""The fields of a translation request are parsed once and validated once, behind a worker too."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from starlette import requests

from service.api.fields import parameters
from service.api.fields.schemas import Answer
from service.settings import Settings
from tests.support.asgi import connected
from tests.support.fronts import owning, worker_of

TEXT = "zwei hunde"
BODY = {"q": TEXT, "source": "de", "target": "en"}
DEEPL = {"text": [TEXT], "source_lang": "DE", "target_lang": "EN"}
DEEPLX = {"text": TEXT, "source_lang": "DE", "target_lang": "EN"}
QUERY = {"text": TEXT, "target_lang": "EN", "source_lang": "DE"}
PAGE = {"text_list": [TEXT], "source_lang": "de", "target_lang": "en"}
GOOGLE = "/language/translate/v2"
FILES = {"file": ("a.txt", TEXT.encode())}
PART = {"q": (None, TEXT), "source": (None, "de"), "target": (None, "en")}
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("POST", "/translate", {"json": BODY}),
    "list": ("POST", "/translate", {"json": BODY | {"q": [TEXT, "b"]}}),
    "long": ("POST", "/translate", {"json": BODY | {"padding": "x" * 5_000}}),
    "detected": ("POST", "/translate", {"json": BODY | {"source": "auto"}}),
    "html": ("POST", "/translate", {"json": BODY | {"q": f"<b>{TEXT}</b>", "format": "html"}}),
    "glossary": ("POST", "/translate", {"json": BODY | {"glossary": {"hunde": "CATS"}}}),
    "prefix": ("POST", "/translate", {"json": BODY | {"prefix": "ZW"}}),
    "alternatives": ("POST", "/translate", {"json": BODY | {"alternatives": 2}}),
    "confidence": ("POST", "/translate", {"json": BODY | {"confidence": True}}),
    "attention": ("POST", "/translate", {"json": BODY | {"attention": True}}),
    "stream": ("POST", "/translate", {"json": BODY | {"stream": True}}),
    "form": ("POST", "/translate", {"data": BODY}),
    "long form": ("POST", "/translate", {"data": BODY | {"padding": "x" * 17_000}}),
    "multipart": ("POST", "/translate", {"files": PART}),
    "DeepL": ("POST", "/v2/translate", {"json": DEEPL}),
    "DeepL, XML": ("POST", "/v2/translate", {"json": DEEPL | {"tag_handling": "xml"}}),
    "DeepL, form": ("POST", "/v2/translate", {"data": DEEPL}),
    "DeepL, query": ("GET", "/v2/translate", {"params": QUERY}),
    "DeepLX": ("POST", "/translate", {"json": DEEPLX}),
    "MTranServer": ("POST", "/imme", {"json": PAGE}),
    "Google": ("POST", GOOGLE, {"json": BODY}),
    "Google, query": ("GET", GOOGLE, {"params": BODY}),
    "Apertium": ("GET", "/translate", {"params": {"langpair": "de|en", "q": TEXT}}),
    "next words": ("POST", "/alternatives", {"json": BODY | {"position": 0}}),
    "file": ("POST", "/translate_file", {"data": BODY, "files": FILES}),
    "DeepL, file": ("POST", "/v2/document", {"data": QUERY, "files": FILES}),
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Parses and validations of fields with ``TEXT``; a multipart form always has it."""
    found = Counter[str]()

    def count(owner: Any, name: str, kind: str, within: Any) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            found[kind] += bool(within(arguments))
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    spelled = (TEXT, TEXT.replace(" ", "+"), TEXT.replace(" ", "%20"))
    for owner, name in ((json, "loads"), (parameters, "form_pairs")):
        count(owner, name, "parsed", lambda given: any(text in str(given[0]) for text in spelled))
    count(requests.MultiPartParser, "parse", "parsed", lambda _: True)
    validate = BaseModel.model_validate.__func__

    def validated(model: type[BaseModel], *arguments: Any, **options: Any) -> Any:
        found["validated"] += not issubclass(model, Answer)
        return validate(model, *arguments, **options)

    monkeypatch.setattr(BaseModel, "model_validate", classmethod(validated))
    return found


async def check(client: httpx.AsyncClient, counted: Counter[str], *kinds: str) -> None:
    for kind in kinds:
        method, path, arguments = REQUESTS[kind]
        counted.clear()
        response = await client.request(method, path, **arguments)
        assert response.status_code == 200, (kind, response.text)
        assert counted == {"parsed": 1, "validated": 1}, kind


async def test_every_kind_of_request_is_parsed_and_validated_once(
    settings: Settings, counted: Counter[str]
) -> None:
    async with connected(settings) as client:
        await check(client, counted, *REQUESTS)
        counted.clear()
        assert (await client.post("/translate", json=BODY)).status_code == 200
        assert not counted.total(), "a repeated body"


async def test_request_behind_a_worker_is_parsed_by_one_of_the_processes(
    settings: Settings, tmp_path: Path, counted: Counter[str]
) -> None:
    path = tmp_path / "owner"
    async with owning(settings, path), worker_of(settings, path) as (_, client):
        await check(client, counted, *REQUESTS)
