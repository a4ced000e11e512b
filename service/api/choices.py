"""Adds the available language pairs to a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def offer_pairs(
    schema: dict[str, Any], source: str, target: str, targets_of: Mapping[str, Sequence[str]]
) -> None:
    """Restrict two properties of ``schema``, in place, to the pairs in ``targets_of``.

    Two separate enums suffice if every source has the same targets.
    """
    sources = list(targets_of)
    targets = sorted({each for offered in targets_of.values() for each in offered})
    for name, choices in ((source, sources), (target, targets)):
        schema["properties"][name] = {**schema["properties"][name], "enum": choices}
    if all(sorted(offered) == targets for offered in targets_of.values()):
        return
    pairs = [
        {"properties": {source: {"const": each}, target: {"enum": sorted(offered)}}}
        for each, offered in targets_of.items()
    ]
    schema.setdefault("allOf", []).append({"anyOf": pairs})
