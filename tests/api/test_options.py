"""The options of a request, compared between the API, the engine's overrides, client and docs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from dragoman import DecodingOptions
from service.api.fields.options import DecodingParameters
from service.api.libretranslate.translate import TranslateParameters
from service.translation.decoding import DecodingOverrides

API = Path(__file__).parents[2] / "docs" / "api.md"
SCHEDULED = {"priority", "return_scores"}
"""Options of the API that do not change the search."""


def test_api_overrides_and_client_have_the_same_decoding_options() -> None:
    fields = set(DecodingParameters.model_fields)
    overrides = {field.name for field in dataclasses.fields(DecodingOverrides)}
    assert fields - {"priority"} == overrides
    assert fields - SCHEDULED == set(DecodingOptions.__optional_keys__)


def test_documentation_has_every_field_of_a_translation() -> None:
    section = API.read_text("utf-8").split("\n## Translate\n")[1].split("\n```sh\ncurl -s http")[1]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented >= set(TranslateParameters.model_fields)
