"""Restricts the OpenAPI schemas of LibreTranslate's routes to the loaded languages."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from service.api.choices import offer_pairs
from service.api.libretranslate.spelling import AUTO, written
from service.translation.catalogue import Catalogue

_DETECTING = frozenset({"/translate", "/translate_file"})
"""Paths that detect the source language on request."""
_PATHS = (*sorted(_DETECTING), "/suggest")


def describe(document: dict[str, Any], offer: Catalogue) -> dict[str, Any]:
    """Return a copy that offers only the loaded languages as source and target."""
    document = deepcopy(document)
    targets = sorted(map(written, offer.targets))
    reached = {
        written(source): [
            *map(written, offer.targets_of(source)),
            *([written(source)] if source in offer.targets else []),
        ]
        for source in offer.sources
    }
    for path in _PATHS:
        body = document["paths"][path]["post"]["requestBody"]
        detected = {AUTO: targets} if path in _DETECTING else {}
        for media_type in body["content"].values():
            offer_pairs(media_type["schema"], "source", "target", detected | reached)
    return document
