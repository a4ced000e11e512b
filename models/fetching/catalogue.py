"""The table of models that are added by a language pair, ``catalogue.csv``.

It names one repository of the Hugging Face hub for a pair. Its licence is in the model card, which
is fetched with it.
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

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"


def read_catalogue() -> tuple[Entry, ...]:
    text = (resources.files("models.fetching") / "catalogue.csv").read_text(encoding="utf-8")
    return tuple(Entry(**row) for row in csv.DictReader(text.splitlines()))
