"""Parses request fields of DeepL's dialect from JSON, forms and the query string.

The official client sends forms even with GET. The body takes precedence over the query string. A
repeated list field keeps every value; any other repeated field keeps the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.datastructures import UploadFile

from service.api.access import Access, Caller
from service.api.errors import BadRequest
from service.api.parameters import Upload, form_pairs, json_object

M = TypeVar("M", bound=BaseModel)

_MOST_FIELDS = 4_000
_LISTS = frozenset(
    {
        *("text", "custom_instructions", "suppress_sequences", "glossary_ids"),
        *("ignore_tags", "splitting_tags", "non_splitting_tags"),
    }
)
_SUBJECT = re.compile("^(Input|String|List) should")
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"


def _split(value: Any) -> Any:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return value
    return [name.strip() for each in value for name in each.split(",") if name.strip()]


CommaSeparated = Annotated[
    list[str], BeforeValidator(_split, json_schema_input_type=str | list[str])
]
"""A list, or comma-separated names as in forms."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a request. JSON values are checked strictly by type; form values are text."""

    values: dict[str, Any] = field(repr=False)
    """Files of a form are of type ``Upload``."""
    as_json: bool

    def parse(self, model: type[M]) -> M:
        """Validate the fields as ``model``; raises ``BadRequest`` for the first invalid field."""
        given = {name: value for name, value in self.values.items() if value is not None}
        if not self.as_json:
            given = {name: value for name, value in given.items() if value != ""}
        try:
            return model.model_validate(given, strict=self.as_json)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "missing":
                raise BadRequest(f"Parameter '{name}' not specified.") from error
            problem = _SUBJECT.sub("it should", first["msg"].removeprefix("Value error, "))
            raise BadRequest(f"Value for '{name}' not supported: {problem}.") from error


async def read_fields(request: Request) -> Fields:
    """Read the fields of a request; raises ``BadRequest`` if they cannot be parsed."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    values: dict[str, Any] = _collected(form_pairs(request.scope["query_string"], _MOST_FIELDS))
    if content_type == _MULTIPART:
        async with request.form(max_files=1, max_fields=_MOST_FIELDS) as form:
            sent = [(name, await _read(value)) for name, value in form.multi_items()]
        return Fields(values | _collected(sent), as_json=False)
    body = await request.body()
    if content_type == "application/json" or content_type.endswith("+json"):
        # Clients declare JSON even on requests without a body.
        return (
            Fields(values | json_object(body), as_json=True)
            if body
            else Fields(values, as_json=False)
        )
    if content_type == _FORM:
        return Fields(values | _collected(form_pairs(body, _MOST_FIELDS)), as_json=False)
    if body.lstrip().startswith((b"{", b"[")):
        raise BadRequest("the body looks like JSON: send it with content-type application/json")
    return Fields(values, as_json=False)


async def identify(access: Access, request: Request, fields: Fields) -> Caller:
    """The caller, by header or by ``auth_key`` of old clients; raises as ``Access.identify``."""
    key = fields.values.get("auth_key")
    return await access.identify(request, key if isinstance(key, str) else None)


async def admitted(access: Access, request: Request) -> tuple[Caller, Fields]:
    """Caller and fields of a request that translates nothing; counts against the rate limit."""
    fields = await read_fields(request)
    caller = await identify(access, request, fields)
    access.admit(caller)
    return caller, fields


async def _read(value: str | UploadFile) -> str | Upload:
    if isinstance(value, str):
        return value
    return Upload(value.filename or "", await value.read())


def _collected(pairs: Iterable[tuple[str, str | Upload]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in _LISTS:
            fields.setdefault(name, []).append(value)
        else:
            fields.setdefault(name, value)
    return fields
