"""The tables of models that are added by a language pair: ``firefox.csv`` and ``catalogue.csv``.

``firefox.csv`` has the models and scores of github.com/mozilla/firefox-translations-models
(``metadata.json``, ``evaluation/``; December 2025). ``catalogue.csv`` names one repository of the
Hugging Face hub for a pair. The licence of a model is the one in its card, which is fetched with
it; the table repeats those that the hub's pages name. FLORES scores are those that the OPUS-MT
leaderboard (``scores/*/flores101-devtest/bleu-scores.txt`` of
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


@dataclass(frozen=True, slots=True)
class FirefoxEntry:
    """A model of Firefox, scored by Mozilla on FLORES-200 devtest, with others on the same text."""

    source: str
    target: str
    architecture: str
    version: str
    """Empty where the list of scores has none."""
    bytes: str
    flores: str
    """BLEU; empty if it is not known."""
    comet: str
    opusmt: str
    """BLEU of OPUS-MT; empty if it has no model."""
    argos: str

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"


def read_firefox() -> tuple[FirefoxEntry, ...]:
    text = (resources.files("models.fetching") / "firefox.csv").read_text(encoding="utf-8")
    return tuple(FirefoxEntry(**row) for row in csv.DictReader(text.splitlines()))


def firefox_of(pair: str) -> list[FirefoxEntry]:
    """Firefox's models of a pair, the best first."""
    own = [entry for entry in read_firefox() if entry.pair == pair]
    return sorted(own, key=lambda entry: -float(entry.flores or 0))


def prefers_firefox(pair: str) -> bool:
    """Whether Firefox has a model of a pair, and none of OPUS-MT or Argos is known to be better."""
    own = firefox_of(pair)
    others = [float(score) for entry in own for score in (entry.opusmt, entry.argos) if score]
    return bool(own) and float(own[0].flores or 0) >= max(others, default=0.0)


@dataclass(frozen=True, slots=True)
class Offer:
    """The best model of a pair in the tables."""

    name: str
    """The model as ``dragoman models add`` takes it: ``firefox:PAIR`` or ``hf:REPOSITORY``."""
    flores: float | None
    """Published BLEU on FLORES devtest; ``None`` if it is not known."""
    publication: str


def best_of(pair: str) -> Offer | None:
    """The best model of a pair in the tables; ``None`` if they have none."""
    if prefers_firefox(pair):
        flores = firefox_of(pair)[0].flores
        publication = "published by Mozilla, FLORES-200, December 2025"
        return Offer(f"firefox:{pair}", float(flores) if flores else None, publication)
    for entry in read_catalogue():
        if entry.pair == pair:
            publication = "published by the OPUS-MT leaderboard, FLORES-101"
            flores = entry.flores
            return Offer(f"hf:{entry.repository}", float(flores) if flores else None, publication)
    return None


def pairs() -> set[str]:
    """The pairs of both tables."""
    return {entry.pair for entry in read_catalogue()} | {entry.pair for entry in read_firefox()}
