"""Restricts the OpenAPI schemas of DeepL's routes to the loaded languages and pairs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from service.api.choices import offer_pairs
from service.api.deepl.languages import base, listed, shown
from service.translation.catalogue import Catalogue

_PATHS = ("/v2/translate", "/v2/document")
_DICTIONARIES = (
    ("/v2/glossaries", "post"),
    ("/v3/glossaries", "post"),
    ("/v3/glossaries/{glossary_id}", "patch"),
    ("/v3/glossaries/{glossary_id}/dictionaries", "put"),
)


def describe(document: dict[str, Any], offer: Catalogue) -> dict[str, Any]:
    """Return a copy that offers only the loaded languages as source and target."""
    document = deepcopy(document)
    sources = [str(each["language"]) for each in listed(offer, "sources")]
    targets = [str(each["language"]) for each in listed(offer, "targets")]
    choices = {"source_lang": sources, "target_lang": targets}
    for path in _PATHS:
        for operation in document["paths"][path].values():
            _restrict(operation, choices)
    targets_of: dict[str, list[str]] = {}
    for pair in offer.direct_pairs():
        targets_of.setdefault(shown(base(pair.source)), []).append(shown(base(pair.target)))
    for path, method in _DICTIONARIES:
        body = document["paths"][path][method]["requestBody"]
        for media_type in body["content"].values():
            offer_pairs(_dictionary(media_type["schema"]), "source_lang", "target_lang", targets_of)
    return document


def _dictionary(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, or the item schema of its ``dictionaries``."""
    several = schema["properties"].get("dictionaries")
    if several is None:
        return schema
    listed = next((each for each in several.get("anyOf", ()) if "items" in each), several)
    items: dict[str, Any] = listed["items"]
    return items


def _restrict(operation: dict[str, Any], choices: dict[str, list[str]]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in choices:
            none = [] if parameter["required"] else [""]
            parameter["schema"] = {"enum": [*choices[parameter["name"]], *none]}
    for name, media_type in operation.get("requestBody", {}).get("content", {}).items():
        schema = media_type["schema"]
        for field, codes in choices.items():
            nothing = None if name == "application/json" else ""
            left_out = [] if field in schema["required"] else [nothing]
            schema["properties"][field] = {"enum": [*codes, *left_out]}
