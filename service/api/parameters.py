"""Parses request fields from JSON, forms and the query string by LibreTranslate's rules.

A JSON body is an object and the only source of fields. Otherwise, fields come from the query string
and the form, in this order, and the first of several values counts. JSON values are checked
strictly by type; form values are text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError, WithJsonSchema
from starlette.datastructures import FormData, UploadFile

from service.api.errors import BadRequest

M = TypeVar("M", bound=BaseModel)

RequiredText = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1})]
"""For fields that ``Fields.require`` checks. With a minimum length, pydantic would refuse invalid
Unicode with its own message."""

_MOST_FIELDS = 100
_NOT_A_NUMBER = frozenset(
    {"int_parsing", "int_parsing_size", "int_type", "float_parsing", "float_type", "value_error"}
)


@dataclass(frozen=True, slots=True)
class Fields:
    values: dict[str, Any] = field(repr=False)
    as_json: bool
    hint: str = ""
    """Appended to the error of a missing field, if the content type of the body is wrong."""

    @property
    def key(self) -> str | None:
        """The caller's API key, if it is in a field."""
        key = self.values.get("api_key")
        return key if isinstance(key, str) else None

    def require(self, names: Sequence[str]) -> None:
        """Raises ``BadRequest`` for the first that is missing or empty."""
        for name in names:
            if self.values.get(name) in (None, "", []):
                raise BadRequest(f"Invalid request: missing {name} parameter{self.hint}")

    def parse(self, model: type[M], required: Sequence[str] = ()) -> M:
        """Check the fields against ``model``; raises ``BadRequest`` for the first problem."""
        self.require(required)
        given = {name: value for name, value in self.values.items() if value is not None}
        try:
            return model.model_validate(given, strict=self.as_json)
        except ValidationError as error:
            raise BadRequest(_first_problem(error)) from error


@dataclass(frozen=True, slots=True)
class Upload:
    """A file uploaded in a form."""

    filename: str
    content: bytes = field(repr=False)


async def read_upload(request: Request, name: str) -> tuple[Fields, Upload | None]:
    """The fields of a form, and its file of this name; raises ``BadRequest``."""
    pairs = form_pairs(request.scope["query_string"])
    upload = None
    if _content_type(request) == "multipart/form-data":
        async with request.form(max_files=1, max_fields=_MOST_FIELDS) as form:
            pairs += _texts_of(form)
            file = form.get(name)
            if isinstance(file, UploadFile):
                upload = Upload(file.filename or "", await file.read())
    return Fields(_first_of_each(pairs), as_json=False), upload


async def read_fields(request: Request) -> Fields:
    """Read the fields of a request; raises ``BadRequest`` for what cannot be read."""
    content_type = _content_type(request)
    if content_type == "application/json" or content_type.endswith("+json"):
        return Fields(json_object(await request.body()), as_json=True)
    pairs = form_pairs(request.scope["query_string"])
    hint = ""
    if content_type == "multipart/form-data":
        async with request.form(max_files=0, max_fields=_MOST_FIELDS) as form:
            pairs += _texts_of(form)
    else:
        body = await request.body()
        if body.lstrip().startswith((b"{", b"[")):
            hint = "; the body looks like JSON: send it with content-type application/json"
        elif content_type == "application/x-www-form-urlencoded":
            pairs += form_pairs(body)
    return Fields(_first_of_each(pairs), as_json=False, hint=hint)


def body_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads its fields by ``read_fields``.

    ``schema`` describes the JSON body, where null means absent. A form has the same fields, but
    neither nulls nor lists.
    """
    form = form_schema(schema)
    return {
        "requestBody": {
            "required": True,
            "description": "The same fields may also come in the query string with no body.",
            "content": {
                "application/json": {"schema": _nullable(schema)},
                "application/x-www-form-urlencoded": {"schema": form},
                "multipart/form-data": {"schema": form},
            },
        }
    }


def form_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The part of a JSON Schema that a form can express."""
    properties = {}
    for name, described in schema["properties"].items():
        rest = {key: said for key, said in described.items() if key not in ("anyOf", "default")}
        choices = described.get("anyOf", [{}])
        sayable = [choice for choice in choices if choice.get("type") not in ("null", "array")]
        if len(sayable) == 1:
            properties[name] = sayable[0] | rest
        elif sayable:
            properties[name] = {"anyOf": sayable} | rest
    return {**schema, "properties": properties}


def file_encoding(name: str) -> dict[str, Any]:
    """OpenAPI encoding of a form's file; the extension of its filename gives the format."""
    example = f'form-data; name="{name}"; filename="schnee.txt"'
    disposition = {
        "description": "With a filename whose extension says what the file is.",
        "schema": {"type": "string"},
        "example": example,
    }
    return {"headers": {"Content-Disposition": disposition}}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with null for every field that may be left out."""
    null = {"type": "null"}
    properties = {}
    for name, described in schema["properties"].items():
        choices = described.get("anyOf")
        if name in schema.get("required", ()) or null in (choices or ()):
            properties[name] = described
        else:
            about = {key: described[key] for key in ("default", "description") if key in described}
            bare = {key: said for key, said in described.items() if key not in (*about, "anyOf")}
            properties[name] = {"anyOf": [*(choices or [bare]), null], **about}
            if choices is not None:
                properties[name] |= bare
    return {**schema, "properties": properties}


def _texts_of(form: FormData) -> list[tuple[str, str]]:
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _first_of_each(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        values.setdefault(name, value.replace("\r\n", "\n").replace("\r", "\n"))
    return values


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    name = first["loc"][0]
    if name == "q":
        problem = "must be a text or a list of texts"
    elif first["type"] in _NOT_A_NUMBER:
        problem = "is not a number"
    else:
        problem = first["msg"].replace("Input should", "must")
    return f"Invalid request: {name} parameter {problem}"


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises ``BadRequest`` for anything else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("Invalid JSON format") from error
    if not isinstance(document, dict):
        raise BadRequest("Invalid JSON format")
    return document


def form_pairs(encoded: bytes, most: int = _MOST_FIELDS) -> list[tuple[str, str]]:
    """Names and values of a query string or an urlencoded body; raises ``BadRequest``."""
    try:
        return parse_qsl(
            encoded.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=most,
        )
    except UnicodeDecodeError as error:
        raise BadRequest("Invalid request: the parameters are not UTF-8") from error
    except ValueError as error:
        raise BadRequest(f"Invalid request: more than {most} parameters") from error
