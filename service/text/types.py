"""Languages, detections and glossary terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class LanguagePair:
    """Two canonical language codes, see ``models.bundle.languages``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, slots=True)
class Language:
    """A language on offer, its English name, and the other languages it is translated to."""

    code: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnservedLanguage:
    """A language that is not on offer and that a text is probably in."""

    language: str
    confidence: float
    """Share among all languages that can be detected, between 0 and 1."""
    command: str
    """The command that adds a model from it to the target."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A guess at a text's language; ``confidence`` is between 0 and 1."""

    language: str
    confidence: float
    found: bool = True
    """False for a text in no language on offer, which is left as it is."""
    unserved: UnservedLanguage | None = None
    """The language that the text is probably in instead, if it is not on offer."""


@dataclass(frozen=True, slots=True)
class Term:
    """A glossary entry: ``target`` translates each occurrence of ``source``."""

    source: str
    target: str
