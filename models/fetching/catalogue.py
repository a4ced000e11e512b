"""The table of models that are added by a language pair, ``catalogue.csv``.

It names one repository of the Hugging Face hub for a pair. The licence of a model is the one in its
card, which is fetched with it; the table repeats those that the hub's pages name. FLORES scores are
those that the OPUS-MT leaderboard (``scores/*/flores101-devtest/bleu-scores.txt`` of
github.com/Helsinki-NLP/OPUS-MT-leaderboard) has for the archive that the card names as its origin.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Entry:
    source: str
    target: str
    repository: str
    architecture: str
    licence: str
    """Empty if none was found."""
    archive: str
    """The archive that was converted; empty if its score is not known."""
    flores: str
    """BLEU on FLORES-101 devtest of ``archive``."""

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"


def read_catalogue() -> tuple[Entry, ...]:
    text = (resources.files("models.fetching") / "catalogue.csv").read_text(encoding="utf-8")
    return tuple(Entry(**row) for row in csv.DictReader(text.splitlines()))
