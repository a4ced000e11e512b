"""Every field of every request has a bound, and the documentation lists the bounds in force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.fields.bounds import (
    BOUNDS,
    FILENAME_CHARACTERS,
    LANGUAGE_CHARACTERS,
    NAME_CHARACTERS,
    PREFIX_CHARACTERS,
    SUPPRESSED_CHARACTERS,
    SUPPRESSED_TEXTS,
    TAG_CHARACTERS,
    TAGS,
)
from service.settings import Settings
from tests.api.answers import DE_EN, parts_of, refused

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
IN_TABLE = {field for bound in BOUNDS for field in bound.fields}


def unbounded(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """Names of the parts of a field that have no bound, neither in the schema nor in the table."""
    for choice in schema.get("anyOf", [schema]):
        match choice.get("type"):
            case "string" if not {"maxLength", "enum", "const"} & set(choice):
                yield name
            case "integer" | "number" if not {"maximum", "exclusiveMaximum"} & set(choice):
                yield name
            case "array":
                if "maxItems" not in choice:
                    yield name
                yield from unbounded(f"{name}[]", choice["items"])
            case "object" if "additionalProperties" in choice:
                if "maxProperties" not in choice:
                    yield name
                yield from unbounded(f"{name}[]", choice["propertyNames"] | {"type": "string"})
                yield from unbounded(f"{name}[]", choice["additionalProperties"])
            case "object":
                for below, field in choice["properties"].items():
                    yield from unbounded(below, field)


def fields_of(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for parameter in operation.get("parameters", ()):
        yield parameter["name"], parameter["schema"]
    for media_type in operation.get("requestBody", {}).get("content", {}).values():
        yield from media_type["schema"]["properties"].items()


async def test_every_field_of_every_operation_has_a_bound(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    found: dict[str, set[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for name, schema in fields_of(operation):
                for part in unbounded(name, schema):
                    if part.removesuffix("[]") not in IN_TABLE:
                        found.setdefault(f"{method} {path}", set()).add(part)
    assert found == {}


async def test_every_field_in_the_table_exists(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    names: set[str] = set()
    for part in parts_of(document["paths"]):
        names.update(part.get("properties", ()))
        names.update(name for name in (part.get("name"),) if isinstance(name, str))
    assert names >= IN_TABLE


def test_settings_in_the_table_exist() -> None:
    for bound in BOUNDS:
        assert (bound.limit is None) == (bound.setting in Settings.model_fields), bound.what


def test_documentation_has_the_table() -> None:
    text = OPERATIONS.read_text("utf-8")
    for bound in BOUNDS:
        row = f"| {bound.what} | {bound.shown} | {bound.unit} | {bound.status} |"
        assert row in text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", "x" * (LANGUAGE_CHARACTERS + 1)),
        ("model", "x" * (NAME_CHARACTERS + 1)),
        ("api_key", "x" * (NAME_CHARACTERS + 1)),
        ("target_prefix", "x" * (PREFIX_CHARACTERS + 1)),
        ("suppress_sequences", ["x"] * (SUPPRESSED_TEXTS + 1)),
        ("suppress_sequences", ["x" * (SUPPRESSED_CHARACTERS // 2 + 1)] * 2),
    ],
)
async def test_field_beyond_its_bound_is_refused_by_name(
    client: httpx.AsyncClient, field: str, value: str | list[str]
) -> None:
    asked = client.post("/translate", json={"q": "a", **DE_EN, field: value})
    assert f" {field} parameter" in await refused(asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_lang", "x" * (LANGUAGE_CHARACTERS + 1)),
        ("glossary_id", "x" * (NAME_CHARACTERS + 1)),
        ("custom_instructions", ["x" * 301]),
        ("ignore_tags", ["x"] * (TAGS + 1)),
        ("ignore_tags", "x" * (TAG_CHARACTERS + 1)),
    ],
)
async def test_deepl_field_beyond_its_bound_is_refused_by_name(
    client: httpx.AsyncClient, field: str, value: str | list[str]
) -> None:
    body = {"text": ["a"], "source_lang": "DE", "target_lang": "EN", field: value}
    assert f"'{field}" in await refused(client.post("/v2/translate", json=body))


async def test_name_of_a_file_beyond_its_bound_is_refused(client: httpx.AsyncClient) -> None:
    fields = {"target_lang": "EN", "filename": "x" * (FILENAME_CHARACTERS + 1) + ".txt"}
    response = await client.post("/v2/document", data=fields, files={"file": ("a.txt", b"a")})
    assert (response.status_code, "'filename'" in response.json()["message"]) == (400, True)
