"""Tests of the OpenAPI document, and of the service's agreement with it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from service.settings import Settings
from tests.api.answers import parts_of
from tests.support.asgi import connected

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


OF_APERTIUM = {("get", "/translate"), ("get", "/listPairs")}
APERTIUM = ["status", "code", "message", "explanation"]


async def test_every_operation_documents_errors_in_its_dialect(document: dict[str, Any]) -> None:
    for (method, path), operation in operations(document).items():
        assert method in METHODS
        word = "message" if re.match("/v[23]/", path) else "error"
        words = APERTIUM if (method, path) in OF_APERTIUM else [word]
        for status in ("413", "500"):
            content = operation["responses"][status]["content"]["application/json"]
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][name]["required"] == words, (method, path)


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


async def test_document_of_a_service_with_required_keys_requires_them(settings: Settings) -> None:
    async with connected(settings, api_keys="required") as client:
        of = operations((await client.get("/openapi.json")).json())
    assert {} not in of["post", "/translate"]["security"]
    assert {} not in of["post", "/v2/translate"]["security"]
    assert of["get", "/languages"]["security"] == []


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


async def test_document_describes_every_route_and_its_answers(document: dict[str, Any]) -> None:
    paths = document["paths"]
    assert set(paths) >= {
        *("/translate", "/languages", "/detect", "/translate_file", "/frontend/settings"),
        *("/translations/{id}/attention", "/translations/{id}/alignment"),
        *("/translations/{id}/search", "/attention", "/score"),
        *("/models", "/models/reload", "/livez", "/readyz", "/health", "/metrics"),
    }
    assert not {"/", "/docs", "/static"} & set(paths), "pages are for people"
    translate = paths["/translate"]["post"]["responses"]
    assert {"200", "400", "403", "413", "429", "500", "503", "504"} <= set(translate)
    attention = paths["/translations/{id}/attention"]["get"]
    names = [parameter["name"] for parameter in attention["parameters"]]
    assert names.count("id") == 1
    assert {"text", "leg", "sentence", "kind", "layer", "head", "format"} <= set(names)
    assert {"400", "404", "410", "503"} <= set(attention["responses"])
    assert {"400", "413", "503"} <= set(paths["/score"]["post"]["responses"])
    for end, kinds in (
        ("attention", {"application/json", "application/octet-stream", "image/png"}),
        ("search", {"application/json", "image/svg+xml", "image/png"}),
    ):
        responses = paths[f"/translations/{{id}}/{end}"]["get"]["responses"]
        assert set(responses["200"]["content"]) == kinds


async def test_fields_of_translate_have_types_bounds_and_in_forms_no_lists(
    document: dict[str, Any],
) -> None:
    content = document["paths"]["/translate"]["post"]["requestBody"]["content"]
    json, form = "application/json", "application/x-www-form-urlencoded"
    assert set(content) == {json, form, "multipart/form-data"}
    assert content[json]["schema"]["required"] == ["q", "source", "target"]
    in_json, in_form = (content[kind]["schema"]["properties"] for kind in (json, form))
    for name in ("source", "target"):
        for properties in (in_json, in_form):
            assert properties[name]["type"] == "string"
            assert properties[name]["examples"]
    number = {"type": "integer", "minimum": 0, "maximum": 3}
    assert in_json["alternatives"]["anyOf"] == [number, {"type": "null"}]
    assert number.items() <= in_form["alternatives"].items()
    assert in_json["q"]["anyOf"][1]["maxItems"] == 60
    assert (in_form["q"]["type"], in_form["q"]["maxLength"]) == ("string", 5000)
    assert "suppress_sequences" in in_json
    assert "suppress_sequences" not in in_form
    assert not any({"ge", "gt", "le", "lt"} & set(choice) for choice in in_form.values())


async def test_every_example_of_a_body_is_accepted(
    client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    tried, without = [], []
    for (method, path), operation in operations(document).items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        if "example" not in content:
            without.append(path)
            continue
        # Paths with an id need one of a former answer; this service takes no suggestions and has
        # no admin key.
        if "{" in path or path in ("/suggest", "/admin/keys"):
            continue
        answer = await client.request(method, path, json=content["example"])
        assert answer.status_code < 300, (path, content["example"], answer.text)
        tried.append(path)
    assert {"/translate", "/detect"} <= set(tried)
    # The key of a document is in the answer to its upload.
    assert [path for path in without if not path.startswith("/v2/document/")] == []
