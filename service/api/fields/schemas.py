"""OpenAPI schemas of requests and answers, generated once from the pydantic models.

Schemas say what a client should send. ``service.api.fields.parameters`` also reads values that
they do not mention: null or an empty value for a field that is left out, and numbers as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from service.api.fields.bounds import NAME_CHARACTERS, RequestLimits

_PLACE = "#/components/schemas/{model}"
_JSON = "application/json"
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"

FILE_CONTENT = MappingProxyType(
    {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "*/*": {},
    }
)
"""OpenAPI content of an answer that is a document of any type."""

_MOST_SCHEMAS = 256
_NULL = MappingProxyType({"type": "null"})


class Answer(BaseModel):
    """Base class of JSON answers. Fields that were not set are left out of the answer."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)


def answer_of(model: type[Answer], *, many: bool = False) -> dict[str, Any]:
    """OpenAPI content of an answer, or of a list of them."""
    one = {"$ref": _PLACE.format(model=model.__name__)}
    return {"content": {_JSON: {"schema": {"type": "array", "items": one} if many else one}}}


def answer_or(model: type[Answer], others: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAPI content of an answer in JSON, or of ``others`` where the request asks for them."""
    return {"content": {**answer_of(model)["content"], **others}}


@cache
def answer_schemas() -> Mapping[str, Any]:
    """The schemas of all answers, by the names that ``answer_of`` refers to."""
    models = [(model, "serialization") for model in _subclasses(Answer)]
    _, schemas = models_json_schema(models, ref_template=_PLACE)  # type: ignore[arg-type]
    for schema in schemas["$defs"].values():
        _forget_titles(schema)
    return MappingProxyType(schemas["$defs"])


@lru_cache(_MOST_SCHEMAS)
def body(
    model: type[BaseModel], limits: RequestLimits | None = None, *, lists: bool = False
) -> dict[str, Any]:
    """The request body of a route that reads these fields from JSON or a form.

    With ``lists``, a form may repeat the fields that are lists.
    """
    schema = _schema(model, limits)
    form = {"schema": _form(schema, lists=lists)}
    json = {"schema": _nullable(schema), **_example(schema)}
    content = {_JSON: json, _URLENCODED: form, _MULTIPART: form}
    return {"required": "required" in schema, "content": content}


@lru_cache(_MOST_SCHEMAS)
def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """The request body of a route whose fields are objects, which no form can express."""
    schema = _schema(model, None)
    return {
        "required": "required" in schema,
        "content": {_JSON: {"schema": _nullable(schema), **_example(schema)}},
    }


@lru_cache(_MOST_SCHEMAS)
def upload(model: type[BaseModel], *, lists: bool = False) -> dict[str, Any]:
    """The request body of a route that reads a ``file`` and these fields from a form."""
    form = _form(_schema(model, None), lists=lists)
    file = {"type": "string", "format": "binary", "description": "The document."}
    schema = {
        **form,
        "properties": {"file": file, **form["properties"]},
        "required": ["file", *form["required"]],
    }
    disposition = {
        "description": "With a filename whose extension says what the file is.",
        "schema": {"type": "string"},
        "example": 'form-data; name="file"; filename="schnee.txt"',
    }
    encoding = {"file": {"headers": {"Content-Disposition": disposition}}}
    content = {_MULTIPART: {"schema": schema, "encoding": encoding}}
    return {"required": True, "content": content}


@lru_cache(_MOST_SCHEMAS)
def query(model: type[BaseModel], limits: RequestLimits | None = None) -> list[dict[str, Any]]:
    """The parameters of a route that reads these fields from the query string."""
    schema = _form(_schema(model, limits), lists=True)
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": {key: value for key, value in field.items() if key != "description"},
            "description": field.get("description", ""),
        }
        for name, field in schema["properties"].items()
    ]


def in_path(name: str, description: str, pattern: str | None = None) -> dict[str, Any]:
    """A parameter in the path of a route."""
    schema: dict[str, Any] = {"type": "string", "maxLength": NAME_CHARACTERS}
    if pattern is not None:
        schema["pattern"] = pattern
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": schema,
        "description": description,
    }


def _example(schema: dict[str, Any]) -> dict[str, Any]:
    """A body of the required fields, if each has an example; pages offer it for trying out."""
    fields = {name: schema["properties"][name] for name in schema.get("required", ())}
    if not all("examples" in field for field in fields.values()):
        return {}
    return {"example": {name: field["examples"][0] for name, field in fields.items()}}


def _subclasses(model: type[Answer]) -> Iterator[type[Answer]]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)


def _schema(model: type[BaseModel], limits: RequestLimits | None) -> dict[str, Any]:
    """The JSON Schema of ``model`` without references, with the limits in force."""
    # References to the model's own ``$defs`` do not resolve in the OpenAPI document.
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(each) for each in part]
        if not isinstance(part, dict):
            return part
        described = {name: resolved(each) for name, each in part.items()}
        if (reference := described.pop("$ref", None)) is not None:
            return resolved(definitions[reference.rpartition("/")[2]]) | described
        return described

    inlined: dict[str, Any] = resolved(schema)
    _forget_titles(inlined)
    for name, field in inlined["properties"].items():
        for choice in field.get("anyOf", [field]):
            if name in inlined.get("required", ()):
                _require_content(choice)
            if limits is not None:
                _limit(choice, name, limits)
    return inlined


def _forget_titles(schema: dict[str, Any]) -> None:
    """Remove titles: generators of clients take equal titles for equal types."""
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        _forget_titles(field)
    for choice in schema.get("anyOf", ()):
        _forget_titles(choice)
    if "items" in schema:
        _forget_titles(schema["items"])


def _require_content(schema: dict[str, Any]) -> None:
    """An empty required field is refused as missing."""
    match schema.get("type"):
        case "string":
            schema.setdefault("minLength", 1)
        case "array":
            schema.setdefault("minItems", 1)


def _limit(schema: dict[str, Any], name: str, limits: RequestLimits) -> None:
    match name, schema.get("type"):
        case "beam_size" | "num_hypotheses", "integer":
            schema["maximum"] = limits.alternatives + 1
        case "alternatives", "integer":
            schema["maximum"] = limits.alternatives
        case "q" | "text" | "source_text" | "target_text" | "translation" | "prefix", "string":
            schema["maxLength"] = limits.characters
        case "q" | "text" | "text_list" | "source_text" | "target_text", "array":
            schema["maxItems"] = limits.texts
            schema["items"]["maxLength"] = limits.characters


def _form(schema: dict[str, Any], *, lists: bool) -> dict[str, Any]:
    """The part of a schema that a form can express."""
    properties = {}
    for name, field in schema["properties"].items():
        about = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
        choices = [
            each
            for each in field.get("anyOf", [{}])
            if each != _NULL and each.get("type") != "object"
        ]
        arrays = [each for each in choices if each.get("type") == "array"]
        others = [each for each in choices if each not in arrays]
        choices = arrays if arrays and lists else others
        if choices:
            properties[name] = about | (choices[0] if len(choices) == 1 else {"anyOf": choices})
    return {**schema, "properties": properties}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with null for every field that may be left out."""
    properties = {}
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()) or _NULL in field.get("anyOf", ()):
            properties[name] = field
            continue
        about = {key: field[key] for key in ("default", "description", "examples") if key in field}
        bare = {key: value for key, value in field.items() if key not in (*about, "anyOf")}
        properties[name] = {"anyOf": [*field.get("anyOf", [bare]), dict(_NULL)], **about}
    return {**schema, "properties": properties}
