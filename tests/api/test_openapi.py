"""Tests of the OpenAPI document, and of the service's agreement with it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from jsonschema_rs import Draft202012Validator

from service.settings import Settings
from tests.api.answers import parts_of, refused

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    described: dict[str, Any] = (await client.get("/openapi.json")).json()
    return described


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


async def test_every_operation_documents_errors_in_its_dialect(document: dict[str, Any]) -> None:
    for (method, path), operation in operations(document).items():
        assert method in METHODS
        word = "message" if re.match("/v[23]/", path) else "error"
        for status in ("413", "500"):
            content = operation["responses"][status]["content"]["application/json"]
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][name]["required"] == [word], (method, path)


async def test_503_documents_retry_after(document: dict[str, Any]) -> None:
    headers = operations(document)["post", "/v2/translate"]["responses"]["503"]["headers"]
    assert set(headers) == {"Retry-After", "X-Request-Id"}
    for header in headers.values():
        assert header["$ref"].rpartition("/")[2] in document["components"]["headers"]


async def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = {operation["operationId"] for operation in operations(document).values()}
    assert len(ids) == len(operations(document))


async def test_a_key_is_optional_unless_the_operator_requires_it(document: dict[str, Any]) -> None:
    of = operations(document)
    assert {} in of["post", "/translate"]["security"]
    assert of["get", "/livez"]["security"] == []
    assert {} not in of["post", "/models/reload"]["security"]


class TestRequired:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"api_keys": "required"})

    async def test_document_requires_keys(self, document: dict[str, Any]) -> None:
        of = operations(document)
        assert {} not in of["post", "/translate"]["security"]
        assert {} not in of["post", "/v2/translate"]["security"]
        assert of["get", "/languages"]["security"] == []


@pytest.mark.parametrize("path", ["/v3/glossaries/%0Ax", "/v2/%0A", "/v2/nothing"])
async def test_unknown_path_returns_404_in_its_dialect(
    client: httpx.AsyncClient, path: str
) -> None:
    await refused(client.get(path), 404)


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ({"entries_format": "tsv", "entries": "Wiese\tmeadow"}, True),
        ({"entries_format": "tsv", "entries": "\ufeffWiese\tmeadow\r\n\nzwei Hunde\tdogs\n"}, True),
        ({"entries_format": "csv", "entries": 'Wiese,meadow\n"a, b","say ""a"""'}, True),
        ({"entries_format": "csv", "entries": "Wiese\tmeadow"}, False),
        ({"entries_format": "tsv", "entries": "Wiese,meadow"}, False),
        ({"entries_format": "tsv", "entries": "Wiese\t meadow"}, False),
        ({"entries_format": "tsv", "entries": "\n"}, False),
    ],
)
async def test_glossary_schema_agrees_with_validation(
    client: httpx.AsyncClient, document: dict[str, Any], body: dict[str, str], allowed: bool
) -> None:
    content = document["paths"]["/v2/glossaries"]["post"]["requestBody"]["content"]
    body = {"name": "a", "source_lang": "DE", "target_lang": "EN", **body}
    assert Draft202012Validator(content["application/json"]["schema"]).is_valid(body) == allowed
    response = await client.post("/v2/glossaries", json=body)
    assert (response.status_code == 201) == allowed


async def test_too_wide_beam_is_refused_even_without_translation(client: httpx.AsyncClient) -> None:
    for path, body in (
        ("/translate", {"q": "Hund", "source": "de", "target": "de"}),
        ("/v2/translate", {"text": ["Hund"], "source_lang": "DE", "target_lang": "DE"}),
    ):
        assert "at most 4" in await refused(client.post(path, json={**body, "num_hypotheses": 5}))


async def test_boolean_split_sentences_is_refused(client: httpx.AsyncClient) -> None:
    body = {"text": ["Hund"], "target_lang": "DE", "split_sentences": False}
    assert "it should be '0'" in await refused(client.post("/v2/translate", json=body))


async def test_component_schemas_have_the_names_of_their_models(document: dict[str, Any]) -> None:
    """Pydantic would prefix the names of two models of one name with their modules."""
    names = document["components"]["schemas"]
    assert [name for name in names if not name.isalnum()] == []


async def test_no_schema_has_a_title(document: dict[str, Any]) -> None:
    """Generators of clients take schemas of one title for the same type."""
    for part in parts_of([document["paths"], document["components"]]):
        assert not isinstance(part.get("title"), str), part


async def test_no_schema_mixes_texts_and_numbers(document: dict[str, Any]) -> None:
    """Generated clients lack operations with such a request."""
    for part in parts_of(document["paths"]):
        kinds = {each.get("type") for each in part.get("anyOf", ()) if isinstance(each, dict)}
        assert not ("string" in kinds and kinds & {"integer", "number"}), part
