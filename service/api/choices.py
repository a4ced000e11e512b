"""Pairs of languages in JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def offer_pairs(
    schema: dict[str, Any], source: str, target: str, targets_of: Mapping[str, Sequence[str]]
) -> None:
    """Let two properties of an object be what ``targets_of`` says: each source has its targets.

    Where every source has the same targets, each property has its choices and that is all.
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
