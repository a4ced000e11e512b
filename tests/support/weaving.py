"""Joins the parts of a text and what is between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from service.text.markup import MarkedText


def woven(around: Sequence[str], parts: Sequence[str]) -> str:
    """The parts, with the first of ``around`` before them and one after each."""
    assert len(parts) == len(around) - 1
    return "".join(chain.from_iterable(zip_longest(around, parts, fillvalue="")))


def raw_runs(text: MarkedText) -> list[str]:
    """The runs of a text as in the input."""
    return ["".join(atom.raw for atom in run.atoms) for run in text.runs]
