"""Types of request fields, and the decoding options as fields of a request.

The options are declared in ``translation.decoding``, with their ranges and descriptions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import Field

from service.api.fields.bounds import LANGUAGE_CHARACTERS, NAME_CHARACTERS
from service.engine.types import MOST_ALTERNATIVES, Priority
from service.translation.decoding import WHOLE, DecodingOverrides

Number = Annotated[int, WHOLE]

LanguageCode = Annotated[str, Field(min_length=1, max_length=LANGUAGE_CHARACTERS)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)]
"""Name of a model, or an id."""
Texts = Annotated[list[str], Field(fail_fast=True)]
"""Validated up to the first item that is no text: each error costs microseconds on the event loop,
and a body may have a million of them."""
Key = Annotated[str, Field(max_length=NAME_CHARACTERS)]
"""API key; clients without one may send it empty."""


class DecodingParameters(DecodingOverrides):
    """Optional fields of a request about decoding."""

    priority: Priority | None = Field(
        None,
        description="`bulk` waits behind interactive requests; `interactive` if not given.",
    )

    def overrides(self, num_hypotheses: int) -> DecodingOverrides:
        """The options of a request for so many hypotheses."""
        given = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}
        if not given:
            return _only(num_hypotheses)
        return DecodingOverrides.model_construct(**{**given, "num_hypotheses": num_hypotheses})


_OPTIONS = tuple(DecodingOverrides.model_fields)


@lru_cache(MOST_ALTERNATIVES)
def _only(num_hypotheses: int) -> DecodingOverrides:
    """Cached overrides of most requests. Building them costs as much as tokenising a sentence."""
    return DecodingOverrides(num_hypotheses=num_hypotheses)
