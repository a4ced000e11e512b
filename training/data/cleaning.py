"""Normalises text and drops pairs that would teach nothing; counts what each filter drops."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from training.data.corpus import Pair


def normalise(text: str) -> str:
    """Control and zero-width characters out, NFC, every run of blanks one blank."""
    kept = (
        " " if character.isspace() or unicodedata.category(character) == "Cc" else character
        for character in text
        if unicodedata.category(character) != "Cf" or character == "\u200d"
    )
    # Composed last: a letter and its accent may have had something invisible between them.
    return " ".join(unicodedata.normalize("NFC", "".join(kept)).split())


@dataclass(slots=True)
class Cleaner:
    """Filters pairs; ``dropped`` counts by the name of the first filter that objected."""

    max_words: int
    max_ratio: float
    seen: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    _known: set[Pair] = field(default_factory=set)

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for raw in pairs:
            self.seen += 1
            pair = Pair(normalise(raw.source), normalise(raw.target))
            objection = self._objection(pair)
            if objection is None:
                self.kept += 1
                self._known.add(pair)
                yield pair
            else:
                self.dropped[objection] += 1

    def _objection(self, pair: Pair) -> str | None:
        source, target = len(pair.source.split()), len(pair.target.split())
        if not source or not target:
            return "empty"
        if max(source, target) > self.max_words:
            return "too long"
        if max(source, target) > 10 and max(source, target) > self.max_ratio * min(source, target):
            return "length ratio"
        if source > 3 and pair.source == pair.target:
            return "untranslated"
        if pair in self._known:
            return "duplicate"
        return None
