"""Schemathesis checks that permit known exceptions to the OpenAPI document.

The service may refuse a request that the document allows only for the reasons below, which JSON
Schema and OpenAPI cannot express. Any other refusal is a failure. The two checks replace those of
Schemathesis, which permit no exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

GOOGLE = ("GET /language/translate/v2", "POST /language/translate/v2")
SMALL = ("GET /translate", "POST /imme", *GOOGLE)
TRANSLATING = (
    *("POST /translate", "GET /v2/translate", "POST /v2/translate", "POST /v2/document"),
    *SMALL,
)
DICTIONARIES = (
    *("POST /v2/glossaries", "POST /v3/glossaries", "PATCH /v3/glossaries/{glossary_id}"),
    "PUT /v3/glossaries/{glossary_id}/dictionaries",
)
FILES = ("POST /translate_file", "POST /v2/document")
DEEPL = ("GET /v2/translate", "POST /v2/translate", "POST /v2/document")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
NESTED = ("POST /v3/glossaries", "PATCH /v3/glossaries/{glossary_id}")
"""Forms of these have fields such as ``dictionaries[0].entries``, which OpenAPI cannot express."""
PAIRS = ("POST /attention", "POST /score")
ALTERNATIVES = ("POST /alternatives",)
KEYS = ("POST /admin/keys", "PUT /admin/keys/{name}")
SENTENCES = (*ALTERNATIVES, "POST /sentences")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A permitted refusal of requests that the schema allows."""

    operations: tuple[str, ...]
    message: str
    """Regular expression for the error message."""
    reason: str


REFUSALS = (
    Refusal(
        KEYS,
        "is neither the code of a language|is no name of a model|permits no pair by itself",
        "the document describes languages and models as text, because those on offer change",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *PAIRS, *SENTENCES, *DICTIONARIES, "POST /suggest"),
        "is not supported|'(source|target)_lang' not supported|are not supported for"
        "|is not available as a target language",
        "the document describes languages as text, because those on offer change",
    ),
    Refusal(
        TRANSLATING,
        "characters together|has [0-9]+ characters; at most",
        "JSON Schema does not add the lengths of texts",
    ),
    Refusal(
        ("POST /attention",),
        "alignment is added to json only",
        "generators of clients cannot read schemas that compare fields",
    ),
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
        TRANSLATING,
        "return_alternatives excludes|the likeliest next token has the probability",
        "what alternatives go with depends on other fields, and on the model",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *PAIRS, *SENTENCES),
        "has [0-9]+ tokens",
        "JSON Schema counts characters, models read tokens",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *PAIRS, *SENTENCES),
        "is not available as a target language .* with ",
        "a model that is asked for by name has a pair of its own",
    ),
    Refusal(
        (*TRANSLATING, *FILES, *SENTENCES),
        "cannot be detected",
        "some texts are in no language on offer",
    ),
    Refusal(
        ALTERNATIVES,
        "is not the beginning of a word|is copied from the text|source and target are both",
        "JSON Schema does not compare a position with a text, nor languages with each other",
    ),
    Refusal(
        ("POST /translate",),
        "confidence parameter is for plain text|"
        "prefix (needs|parameter (is allowed with one text|excludes))",
        "what a prefix goes with depends on other fields",
    ),
    Refusal(
        ("POST /translate",),
        "glossary (parameter excludes|needs a model)|line [0-9]+: .* already|the source term",
        "what terms go with depends on other fields; they are unique, and names have no pattern",
    ),
    Refusal(
        ("GET /v2/translate", "POST /v2/translate"),
        "the XML is not well formed",
        "JSON Schema knows no XML",
    ),
    Refusal(
        DEEPL,
        "either 'glossary_id' or|a glossary needs it|No dictionary found for language pair",
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
            "GET /translations/{id}/search",
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
        ("POST /admin/keys", "POST /admin/keys/{name}/rotate"),
        "has passed",
        "JSON Schema knows no present time",
    ),
    Refusal(
        ("GET /v3/glossaries/{glossary_id}/entries",),
        "'(source|target)_lang' not specified",
        "OpenAPI cannot say that two parameters come together",
    ),
    Refusal(
        ("GET /v2/glossaries/{glossary_id}", "GET /v2/glossaries/{glossary_id}/entries"),
        "has [0-9]+ dictionaries; ask /v3/glossaries",
        "only who made a glossary knows how many pairs of languages it has",
    ),
)
TEXT_IN_FORMS = r"was string, became (integer|number|boolean)"
"""Words of Schemathesis; every field of a form is text."""
REPEATED = "became array"
"""A form may repeat any field; the first value of a field that is no list counts."""


@schemathesis.check
def valid_requests_are_accepted(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    try:
        return positive_data_acceptance(ctx, response, case)
    except RejectedPositiveData:
        if case.media_type in FORMS and case.operation.label in NESTED:
            return None
        for refusal in REFUSALS:
            label = case.operation.label
            if label in refusal.operations and re.search(refusal.message, response.text):
                return None
        raise


@schemathesis.check
def invalid_requests_are_refused(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> bool | None:
    if response.status_code == 413:
        # Schemathesis takes it for an acceptance.
        return None
    try:
        return negative_data_rejection(ctx, response, case)
    except AcceptedNegativeData as error:
        if case.media_type in FORMS and (
            REPEATED in error.message
            or re.search(TEXT_IN_FORMS, error.message)
            or _is_lenient_form(case.body, case.operation.label)
        ):
            return None
        if isinstance(case.body, dict) and any(_is_lenient(*each) for each in case.body.items()):
            return None
        if any(value == "" for value in (case.query or {}).values()):
            return None
        raise


def _is_lenient(name: str, value: object) -> bool:
    """Whether a JSON value is read although the document describes another type."""
    if value == "":
        return True
    match name:
        case "split_sentences":
            return value in (0, 1)
        case "preserve_formatting" | "outline_detection" | "show_billed_characters":
            return value in ("0", "1")
        case "layer" | "head":
            return isinstance(value, int | float)
        case "alternatives" | "q":
            return isinstance(value, str)
        case _:
            return False


def _is_lenient_form(body: object, label: str) -> bool:
    """Whether an empty field, which counts as left out, or a list of one is in a form."""
    if not isinstance(body, dict):
        return False
    lists = {"text", "custom_instructions", "suppress_sequences", "glossary_ids", "dictionaries"}
    lists |= {"text_list", "ignore_tags", "splitting_tags", "non_splitting_tags"}
    if label in (*GOOGLE, "POST /language/translate/v2/detect"):
        lists.add("q")
    return "" in body.values() or any(not isinstance(body.get(n, []), list) for n in lists)


@schemathesis.hook
def filter_case(ctx: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
    """Whether the query fits into a request line.

    uvicorn refuses a request line beyond 64 KiB, in plain text, before the service sees it.
    """
    return len(urlencode(case.query or {}, doseq=True, errors="replace")) < 60_000


@schemathesis.hook
def before_call(ctx: schemathesis.HookContext, case: schemathesis.Case[Any], **_: Any) -> None:
    """A stream has another media type than the document says.

    Other hooks do not see the variations of an example.
    """
    streams = isinstance(case.body, dict) and case.body.get("stream") is True
    if streams and case.operation.label == "POST /translate":
        case.body = {**case.body, "stream": False}


@schemathesis.hook
def map_body(ctx: schemathesis.HookContext, body: Any) -> Any:
    """Adapt requests so that attention and whole documents are tested, too."""
    operation = ctx.operation
    if operation is None or not isinstance(body, dict):
        return body
    if operation.label == "POST /translate":
        body = _in_known_languages(body)
        said = {"q": "Zwei Hunde."} if len(str(body.get("q"))) % 2 else {}
        return body if body.get("attention") is True else {**body, **said, "attention": True}
    body = _in_known_languages(body)
    file = body.get("file")
    content = getattr(file, "data", file)
    if operation.label in FILES and isinstance(content, bytes) and not sum(content) % 3:
        return {**body, "file": b"Ein Hund."}
    return body


def _in_known_languages(body: dict[str, Any]) -> dict[str, Any]:
    """``body`` with languages on offer in place of other valid texts."""
    known = {"source": "de", "source_lang": "DE", "target": "en", "target_lang": "EN"}
    valid = {name for name in known if isinstance(body.get(name), str) and 0 < len(body[name]) < 65}
    return {**body, **{name: known[name] for name in valid}}
