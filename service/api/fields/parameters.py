"""Reads request fields from JSON, forms and the query string, and validates them.

The body takes precedence over the query string. An empty field is one that is left out, as null is
in JSON. Of a field that a form repeats, the first value counts, unless the dialect reads it as a
list. JSON values are checked strictly by type; form values are text.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile

from service.api.access import address_of
from service.api.errors import BadRequest
from service.api.fields.long_forms import form_thread
from service.api.fields.percent_encoding import unquoted
from service.translation.decoding import SUPPRESSED_TEXTS

M = TypeVar("M", bound=BaseModel)

JSON = "application/json"
_MOST_FIELDS = 4_000
_MOST_FIELDS_BESIDE_A_FILE = SUPPRESSED_TEXTS + 100
"""Each suppressed text is a field, and so is each item of the other parameters.

These forms are parsed on the event loop, which a field keeps busy for 14 microseconds."""
_LONG_FORM_BYTES = 16_384
"""Longer forms are parsed in a thread."""
_ENCODED_WORD = re.compile(r"=\?utf-8\?b\?(.*)\?=", re.IGNORECASE)
"""RFC 2047."""
_ITEM = re.compile(r"(\w{1,40})\[(\d{1,3})\]\.(\w{1,40})")
"""Name of a field of an item of a list of objects, such as ``dictionaries[0].entries``."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """How an API's clients send fields, and how it words its refusals."""

    key: str
    """Name of the field that holds an API key."""
    missing: Callable[[str], str]
    """Error message for a required field that is missing or empty, by its name."""
    invalid: Callable[[str, Mapping[str, Any]], str]
    """Error message for an invalid field, by its name and pydantic's first error."""
    lists: frozenset[str] = frozenset()
    """Fields that a form may repeat."""
    any_type: bool = False
    """Whether a body that looks like JSON is read as JSON, whatever its content type is."""
    unix_lines: bool = False
    """Whether line ends in forms become line feeds; browsers send CR LF."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file uploaded in a form."""

    filename: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fields:
    values: dict[str, Any] = field(repr=False)
    as_json: bool
    dialect: Dialect
    file: Upload | None = None
    """The form's file of the name that the route reads."""

    @property
    def key(self) -> str | None:
        """The caller's API key, if it is in a field."""
        key = self.values.get(self.dialect.key)
        return key if isinstance(key, str) else None

    def parse(self, model: type[M]) -> M:
        """Validate the fields as ``model``; raises ``BadRequest`` for the first invalid field."""
        given = {name: value for name, value in self.values.items() if value not in (None, "")}
        for name in _required(model):
            if given.get(name) == []:
                del given[name]
        try:
            return model.model_validate(given, strict=self.as_json)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "missing":
                raise BadRequest(self.dialect.missing(name)) from error
            raise BadRequest(self.dialect.invalid(name, first)) from error


@cache
def _required(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, each in model.model_fields.items() if each.is_required())


_NO_NUMBER = {
    **dict.fromkeys(
        ("int_parsing", "int_parsing_size", "int_type", "int_from_float"), "is not a whole number"
    ),
    **dict.fromkeys(("float_parsing", "float_type"), "is not a number"),
}


_EXPECTED = re.compile(r"^(\w+|Value error,) should")
"""Begins messages of Pydantic, ``Input should be``, ``String should have``, and of validators."""


def _invalid(name: str, first: Mapping[str, Any]) -> str:
    name = name.partition(".")[0]
    problem = _EXPECTED.sub("must", first["msg"])
    # The place of a value that may be one of several types has a second part.
    if name == "q" and len(first["loc"]) > 1 and first["type"] in ("string_type", "list_type"):
        problem = "must be a text or a list of texts"
    elif first["type"] in _NO_NUMBER:
        problem = _NO_NUMBER[first["type"]]
    elif first["type"].startswith("string_") and _within(first["loc"]):
        return f"Invalid request: {name} parameter: each text {problem}"
    return f"Invalid request: {name} parameter {problem}"


def _within(place: Sequence[int | str]) -> bool:
    """Whether an error is of an item of a list or of an object, not of the whole value."""
    # The second part of a longer place may name a member of a union.
    return len(place) > 2 or isinstance(place[-1], int)


ROOT = Dialect(
    key="api_key",
    missing=lambda name: f"Invalid request: missing {name} parameter",
    invalid=_invalid,
    unix_lines=True,
)
"""The dialect of LibreTranslate, and of the routes about attention."""


async def read_fields(request: Request, dialect: Dialect = ROOT, file: str = "") -> Fields:
    """Read the fields of a request; raises ``BadRequest`` if they cannot be parsed.

    Raises ``Overloaded`` for a long form while too many forms wait (``api.fields.long_forms``).

    ``file`` is the name of the form's file that the route accepts.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BadRequest(
            f"Invalid request: the body is encoded as {encoding[:40]}; send it as it is"
        )
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    queried = collected(form_pairs(request.scope["query_string"]), dialect)
    if content_type == "multipart/form-data":
        upload, pairs = await _multipart(request, file)
        sent = collected(pairs, dialect)
        return Fields(queried | sent, as_json=False, dialect=dialect, file=upload)
    body = await request.body()
    looks_like_json = body.lstrip().startswith((b"{", b"["))
    declared = content_type == JSON or content_type.endswith("+json")
    if declared or (looks_like_json and dialect.any_type):
        # Clients declare JSON even on requests without a body.
        if body:
            return Fields(queried | json_object(body), as_json=True, dialect=dialect)
    elif looks_like_json:
        raise BadRequest(
            "Invalid request: the body looks like JSON; send it with content-type application/json"
        )
    elif content_type == "application/x-www-form-urlencoded":
        sent = collected(await _pairs(request, body), dialect)
        return Fields(queried | sent, as_json=False, dialect=dialect)
    return Fields(queried, as_json=False, dialect=dialect)


async def _multipart(request: Request, file: str) -> tuple[Upload | None, list[tuple[str, str]]]:
    if file:
        # Parsed while it is received, so that the body of a document is not kept in memory.
        return await _parts(request, file, _MOST_FIELDS_BESIDE_A_FILE)
    if len(await request.body()) <= _LONG_FORM_BYTES:
        return await _parts(request, file, _MOST_FIELDS)
    # The thread has its own event loop, as Starlette's parser is asynchronous. It parses the body
    # that ``request`` keeps, and receives nothing.
    return await form_thread().run(
        address_of(request), lambda: asyncio.run(_parts(request, file, _MOST_FIELDS))
    )


async def _parts(
    request: Request, file: str, most_fields: int
) -> tuple[Upload | None, list[tuple[str, str]]]:
    """The file of this name and the texts of a multipart form; raises ``BadRequest``."""
    async with request.form(max_files=1, max_fields=most_fields) as form:
        return await _file(form, file), _texts(form)


async def _file(form: FormData, name: str) -> Upload | None:
    for each, value in form.multi_items():
        if not isinstance(value, UploadFile):
            continue
        if not name:
            raise BadRequest(f"Invalid request: {each} parameter is a file; send it as text")
        if each == name:
            return Upload(_filename(value.filename or ""), await value.read())
    return None


def _filename(sent: str) -> str:
    """The name of an uploaded file, decoded if it is an encoded word; raises ``BadRequest``.

    Clients in .NET encode names beyond ASCII like this.
    """
    if (word := _ENCODED_WORD.fullmatch(sent)) is None:
        return sent
    try:
        return base64.b64decode(word[1], validate=True).decode()
    except ValueError as error:
        raise BadRequest(
            f"Invalid file: its name {sent[:40]} is not Base64 of UTF-8; send the name as UTF-8"
        ) from error


def _texts(form: FormData) -> list[tuple[str, str]]:
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


async def _pairs(request: Request, body: bytes) -> list[tuple[str, str]]:
    if len(body) <= _LONG_FORM_BYTES:
        return form_pairs(body)
    return await form_thread().run(address_of(request), lambda: form_pairs(body))


def collected(pairs: Iterable[tuple[str, str]], dialect: Dialect) -> dict[str, Any]:
    """Fields by name: lists where the dialect has lists, otherwise the first value that is given.

    Fields of items, such as ``dictionaries[0].entries``, become a list of objects.
    """
    fields: dict[str, Any] = {}
    items: dict[str, dict[int, dict[str, str]]] = {}
    for name, text in pairs:
        value = text.replace("\r\n", "\n").replace("\r", "\n") if dialect.unix_lines else text
        if name in dialect.lists:
            fields.setdefault(name, []).append(value)
        elif value and (item := _ITEM.fullmatch(name)):
            items.setdefault(item[1], {}).setdefault(int(item[2]), {}).setdefault(item[3], value)
        elif value:
            fields.setdefault(name, value)
    for name, by_number in items.items():
        fields.setdefault(name, [by_number[number] for number in sorted(by_number)])
    return fields


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises ``BadRequest`` for anything else."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadRequest("Invalid JSON format: the body is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest("Invalid JSON format") from error
    if not isinstance(document, dict):
        raise BadRequest("Invalid JSON format")
    return document


def form_pairs(encoded: bytes) -> list[tuple[str, str]]:
    """Names and values of a query string or an urlencoded body; raises ``BadRequest``."""
    if encoded.count(b"&") >= _MOST_FIELDS:
        raise BadRequest(f"Invalid request: more than {_MOST_FIELDS} parameters")
    fields = (field.partition(b"=") for field in encoded.split(b"&") if field)
    try:
        return [(unquoted(name), unquoted(value)) for name, _, value in fields]
    except UnicodeDecodeError as error:
        raise BadRequest("Invalid request: the parameters are not UTF-8") from error
