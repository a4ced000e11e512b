"""OpenAPI request schemas of DeepL's routes, for JSON, forms and query strings."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_NOT_EMPTY = MappingProxyType({"string": {"minLength": 1}, "array": {"minItems": 1}})
_WIDTHS = ("beam_size", "num_hypotheses")


def body_of(
    model: type[BaseModel], *, forms: bool = True, widest: int | None = None
) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads a body of these fields.

    ``widest`` is the maximum beam width.
    """
    schema = _inlined(model, widest)
    content = {_JSON: {"schema": schema}}
    if forms:
        content[_FORM] = {"schema": _in_a_form(schema)}
    return {"requestBody": {"required": "required" in schema, "content": content}}


def query_of(model: type[BaseModel], *, widest: int | None = None) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads these fields from the query string."""
    schema = _in_a_form(_inlined(model, widest))
    required = schema.get("required", [])
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in schema["properties"].items()
        ]
    }


def _inlined(model: type[BaseModel], widest: int | None) -> dict[str, Any]:
    # References to the model's own ``$defs`` do not resolve in the OpenAPI document.
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolved(definitions[part["$ref"].rpartition("/")[2]])
        return {name: resolved(each) for name, each in part.items()}

    inlined: dict[str, Any] = resolved(schema)
    for name in _WIDTHS if widest is not None else ():
        for choice in inlined["properties"][name]["anyOf"]:
            if choice["type"] == "integer":
                choice["maximum"] = widest
    return inlined


def _in_a_form(schema: dict[str, Any]) -> dict[str, Any]:
    """Form schema: without null, and required fields are not empty, as empty means absent."""
    return {
        **schema,
        "properties": {
            name: _written(field, required=name in schema.get("required", ()))
            for name, field in schema["properties"].items()
        },
    }


def _written(field: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """Form schema of one field."""
    choices = [each for each in field.get("anyOf", [field]) if each.get("type") != "null"]
    about = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    types = {each.get("type") for each in choices}
    if types == {"array"}:
        # A list field that is given once is a list of one.
        choices.append(choices[0]["items"])
    if required:
        bound = "array" if "array" in types else "string"
        choices = [each | (_NOT_EMPTY[bound] if each["type"] == bound else {}) for each in choices]
    elif len(choices) == 1 and "enum" in choices[0]:
        return {**choices[0], **about, "enum": [*choices[0]["enum"], ""]}
    elif not types <= {"string", "array"}:
        choices.append({"enum": ["0", "1", ""] if types == {"boolean"} else [""]})
    return {**about, **choices[0]} if len(choices) == 1 else {**about, "anyOf": choices}
