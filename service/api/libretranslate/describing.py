"""The OpenAPI document, held to what is on offer at the moment."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from service.api.libretranslate.spelling import AUTO, written
from service.translation.offer import Offer

_DETECTING = frozenset({"/translate", "/translate_file"})
"""Where a source may be left open."""
_PATHS = (*sorted(_DETECTING), "/suggest")


def describe(document: dict[str, Any], offer: Offer) -> dict[str, Any]:
    """A copy in which the languages on offer are the only choices for source and target."""
    document = deepcopy(document)
    sources = sorted(map(written, offer.sources))
    targets = sorted(map(written, offer.targets))
    for path in _PATHS:
        body = document["paths"][path]["post"]["requestBody"]
        for media_type in body["content"].values():
            properties = media_type["schema"]["properties"]
            detected = [AUTO] if path in _DETECTING else []
            properties["source"]["enum"] = [*detected, *sources]
            properties["target"]["enum"] = targets
    return document
