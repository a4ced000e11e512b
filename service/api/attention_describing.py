"""Restricts the OpenAPI schemas of ``/attention`` and ``/score`` to the loaded pairs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from service.api.choices import offer_pairs
from service.translation.catalogue import Catalogue

_PATHS = ("/attention", "/score")


def describe(document: dict[str, Any], offer: Catalogue) -> dict[str, Any]:
    """Return a copy that offers only the pairs that a single model translates."""
    document = deepcopy(document)
    targets_of: dict[str, list[str]] = {}
    for pair in offer.direct_pairs():
        targets_of.setdefault(pair.source, []).append(pair.target)
    for path in _PATHS:
        body = document["paths"][path]["post"]["requestBody"]
        for media_type in body["content"].values():
            offer_pairs(media_type["schema"], "source", "target", targets_of)
    return document
