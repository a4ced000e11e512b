"""DeepL's part of the OpenAPI document, once it is known what is on offer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from service.api.deepl.languages import listed
from service.translation.offer import Offer

_PATHS = ("/v2/translate", "/v2/document", "/v2/glossaries")


def describe(document: dict[str, Any], offer: Offer) -> dict[str, Any]:
    """A copy in which the languages on offer are the only choices for source and target."""
    document = deepcopy(document)
    sources = [str(each["language"]) for each in listed(offer, "sources")]
    targets = [str(each["language"]) for each in listed(offer, "targets")]
    choices = {"source_lang": sources, "target_lang": targets}
    for path in _PATHS:
        for operation in document["paths"][path].values():
            _restrict(operation, choices)
    return document


def _restrict(operation: dict[str, Any], choices: dict[str, list[str]]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in choices:
            parameter["schema"] = {"type": "string", "enum": choices[parameter["name"]]}
    for media_type in operation.get("requestBody", {}).get("content", {}).values():
        for name, codes in choices.items():
            media_type["schema"]["properties"][name] = {"type": "string", "enum": codes}
