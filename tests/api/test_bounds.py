"""Fields of requests: their bounds, and options compared between API, engine, client and docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx

from dragoman import DecodingOptions
from service.api.fields.bounds import BOUNDS
from service.api.fields.options import DecodingParameters
from service.api.libretranslate.translate import TranslateParameters
from service.settings import Settings
from tests.api.answers import parts_of
from tests.support.programs import ROOT

OPERATIONS = ROOT / "docs" / "operations.md"
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
        yield from media_type["schema"].get("properties", {}).items()


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


API = ROOT / "docs" / "api.md"
SCHEDULED = {"priority", "return_scores"}
"""Options of the API that do not change the search."""


def test_api_and_client_have_the_same_decoding_options() -> None:
    fields = set(DecodingParameters.model_fields)
    assert fields - SCHEDULED == set(DecodingOptions.__optional_keys__)


def test_documentation_has_every_field_of_a_translation() -> None:
    section = API.read_text("utf-8").split("\n## Translate\n")[1].split("\n```sh\ncurl -s http")[1]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented >= set(TranslateParameters.model_fields)
