"""The field ``glossary`` of a request: terms of the source and what to write for them."""

from __future__ import annotations

from itertools import starmap
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from service.api.errors import BadRequest
from service.api.fields.bounds import TERM_CHARACTERS, TERMS
from service.state.entries import LONGEST_TERM_BYTES, TERM_PATTERN, TSV_PATTERN, parse_tsv, validate
from service.state.errors import InvalidGlossary
from service.text.types import Term


def _bounded(value: Any) -> Any:
    """Raises ``BadRequest`` for an object with too many terms or for a text that is too long.

    Validating a term takes microseconds on the event loop, and a body may have many thousands.
    """
    if isinstance(value, dict):
        _check_size(len(value), TERMS, "terms")
    elif isinstance(value, str):
        _check_size(len(value), TERM_CHARACTERS, "characters")
    return value


def _check_size(size: int, limit: int, unit: str) -> None:
    if size > limit:
        raise BadRequest(
            f"Invalid request: glossary parameter has {size:,} {unit}; at most {limit:,} are "
            "possible, and more in a glossary that is kept"
        )


_Source = Annotated[str, Field(min_length=1, max_length=LONGEST_TERM_BYTES)]
_Target = Annotated[
    str, Field(max_length=LONGEST_TERM_BYTES, json_schema_extra={"pattern": TERM_PATTERN})
]
_Terms = (
    Annotated[dict[_Source, _Target], Field(max_length=TERMS, examples=[{"Wiese": "lawn"}])]
    | Annotated[
        str,
        Field(
            max_length=TERM_CHARACTERS,
            examples=["Wiese\tlawn"],
            json_schema_extra={"pattern": TSV_PATTERN},
        ),
    ]
)
Glossary = Annotated[
    _Terms | None,
    Field(
        description="Terms of the source and what to write for them; as text, a line for each term "
        "with a tab between both."
    ),
    BeforeValidator(_bounded),
]


def terms_of(glossary: dict[str, str] | str) -> tuple[Term, ...]:
    """The terms of the field; raises ``BadRequest`` that names the one that is wrong."""
    try:
        if isinstance(glossary, str):
            terms = parse_tsv(glossary)
        else:
            terms = validate(starmap(Term, glossary.items()))
    except InvalidGlossary as error:
        raise BadRequest(f"Invalid request: glossary parameter: {error}") from error
    _check_size(len(terms), TERMS, "terms")
    _check_size(
        sum(len(term.source) + len(term.target) for term in terms), TERM_CHARACTERS, "characters"
    )
    return terms
