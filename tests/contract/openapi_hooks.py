"""Schemathesis checks that permit known exceptions to the OpenAPI document.

The service may refuse a request that the document allows only for the reasons below, which JSON
Schema and OpenAPI cannot express. Any other refusal is a failure. The two checks replace those of
Schemathesis, which permit no exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

TRANSLATING = ("POST /translate", "GET /v2/translate", "POST /v2/translate", "POST /v2/document")
DICTIONARIES = (
    *("POST /v2/glossaries", "POST /v3/glossaries", "PATCH /v3/glossaries/{glossary_id}"),
    "PUT /v3/glossaries/{glossary_id}/dictionaries",
)
FILES = ("POST /translate_file", "POST /v2/document")
DEEPL = ("GET /v2/translate", "POST /v2/translate", "POST /v2/document")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
PAIRS = ("POST /attention", "POST /score")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A permitted refusal of requests that the schema allows."""

    operations: tuple[str, ...]
    message: str
    """Regular expression for the error message."""
    reason: str


REFUSALS = (
    Refusal(
        TRANSLATING,
        "must not be larger than|must be shorter than|must round to|sampling (needs|has)",
        "numbers contradict each other: JSON Schema does not compare them",
    ),
    Refusal(
        TRANSLATING,
        "suppress_sequences must not hold an empty one|target_prefix",
        "only the tokenizer knows what a text becomes",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *PAIRS),
        "has [0-9]+ tokens",
        "JSON Schema counts characters, models read tokens",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *PAIRS),
        "is not available as a target language .* with ",
        "a model that is asked for by name has a pair of its own",
    ),
    Refusal(
        (*TRANSLATING, *FILES),
        "cannot be detected",
        "some texts are in no language on offer",
    ),
    Refusal(
        ("GET /v2/translate", "POST /v2/translate"),
        "the XML is not well formed",
        "JSON Schema knows no XML",
    ),
    Refusal(
        DEEPL,
        "either 'glossary_id' or|a glossary needs it|languages do not match",
        "what a glossary goes with depends on the glossary",
    ),
    Refusal(
        DEEPL,
        "'glossary_ids' not supported: more than 5",
        "they may be joined by commas, which JSON Schema does not count",
    ),
    Refusal(
        FILES,
        r"(byte|line|character) [0-9]+ |this (zip )?file|the (zip )?file|is not a zip|the page",
        "what is in a file of some name is not JSON Schema's business",
    ),
    Refusal(
        ("POST /v2/document",),
        "a document keeps its format",
        "JSON Schema does not see the name of a file",
    ),
    Refusal(
        (
            "POST /attention",
            *("GET /translations/{id}/attention", "GET /translations/{id}/alignment"),
        ),
        "does not exist|is an empty range",
        "models differ in layers and heads, and translations in sentences",
    ),
    Refusal(
        ("POST /score",),
        "target_text has [0-9]+ texts",
        "JSON Schema does not compare the lengths of lists",
    ),
    Refusal(DICTIONARIES, "is in line [0-9]+ already", "JSON Schema sees no terms in a text"),
    Refusal(DICTIONARIES, "bytes in UTF-8", "JSON Schema counts characters"),
    Refusal(DICTIONARIES, "a name of printable characters", "only Unicode knows which are"),
    Refusal(
        DICTIONARIES,
        "there are two dictionaries for",
        "JSON Schema compares whole items of a list only",
    ),
    Refusal(
        ("GET /v3/glossaries/{glossary_id}/entries",),
        "'source_lang' and 'target_lang' not specified",
        "OpenAPI cannot say that two parameters come together",
    ),
    Refusal(
        ("GET /v2/glossaries/{glossary_id}", "GET /v2/glossaries/{glossary_id}/entries"),
        "has [0-9]+ dictionaries; ask /v3/glossaries",
        "only who made a glossary knows how many pairs of languages it has",
    ),
)
REPEATED = "became array"
"""A form may repeat any field; the first value of a field that is no list counts."""


@schemathesis.check
def valid_requests_are_accepted(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    try:
        return positive_data_acceptance(ctx, response, case)
    except RejectedPositiveData:
        for refusal in REFUSALS:
            label = case.operation.label
            if label in refusal.operations and re.search(refusal.message, response.text):
                return None
        raise


@schemathesis.check
def invalid_requests_are_refused(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    try:
        return negative_data_rejection(ctx, response, case)
    except AcceptedNegativeData as error:
        if case.media_type in FORMS and REPEATED in error.message:
            return None
        raise


@schemathesis.hook
def map_body(ctx: schemathesis.HookContext, body: Any) -> Any:
    """Adapt requests so that attention and whole documents are tested, too."""
    operation = ctx.operation
    if operation is None or not isinstance(body, dict):
        return body
    if operation.label == "POST /translate" and body.get("attention") is not True:
        said = {"q": "Zwei Hunde."} if len(str(body.get("q"))) % 2 else {}
        return {**body, **said, "attention": True}
    file = body.get("file")
    content = getattr(file, "data", file)
    if operation.label in FILES and isinstance(content, bytes) and not sum(content) % 3:
        return {**body, "file": b"Ein Hund."}
    return body
