"""Normalises text and drops pairs that would teach nothing; counts what each filter drops."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.entities import html5
from typing import Literal

from models.text.numbers import numbers
from training.data.corpus import Pair
from training.data.seen import Seen

_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_LOOP = re.compile(r"(?:^| )(\S+(?: \S+){0,7})(?: \1){3,}(?= |$)|(\S{1,8}?)\2{7,}")
"""Up to eight words four times in a row, or up to eight characters eight times."""


class _Visible(dict[int, int | str | None]):
    """For ``str.translate``: white space and control characters to blanks, invisible ones away."""

    def __missing__(self, codepoint: int) -> int | str | None:
        character = chr(codepoint)
        category = unicodedata.category(character)
        seen: int | str | None = codepoint
        if category == "Cf" and character != "\u200d":
            seen = None
        elif category == "Cc" or character.isspace():
            seen = " "
        self[codepoint] = seen
        return seen


_VISIBLE = _Visible()


def normalise(text: str) -> str:
    """Control and zero-width characters out, entities of HTML written out (``&amp;`` is ``&``),
    NFC, every run of blanks one blank."""
    while True:
        plain = _ENTITY.sub(_character, text) if "&" in text else text
        # Composed last: a letter and its accent may have had something invisible between them.
        plain = unicodedata.normalize("NFC", plain.translate(_VISIBLE))
        plain = " ".join(plain.split())
        # Once more if an entity was written as one, or had something invisible within.
        if plain == text or "&" not in plain:
            return plain
        text = plain


def _character(entity: re.Match[str]) -> str:
    # Of a name that HTML lacks, html.unescape would write out the beginning: "&notit;" is "¬it;".
    known = entity[0][1] == "#" or entity[0][1:] in html5
    return html.unescape(entity[0]) if known else entity[0]


@dataclass(slots=True, kw_only=True)
class Cleaner:
    """Filters pairs; ``dropped`` counts by the name of the first filter that objected."""

    max_words: int
    max_ratio: float
    same_numbers: bool = False
    generated: bool = False
    """Keep pairs of which both sides are the same, since copying may be the task, and pairs that
    come again, since of one digit there are only ten."""
    machine: Literal["source", "target"] | None = None
    """The side that is a machine's work, and may loop or go on for ever."""
    known: Seen = field(default_factory=Seen)
    """Pairs that were kept, of this corpus and of others."""
    seen: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for raw in pairs:
            self.seen += 1
            pair = Pair(normalise(raw.source), normalise(raw.target))
            objection = self._objection(pair)
            if objection is None:
                self.kept += 1
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
        if not self.generated and source > 3 and _letters(pair.source) == _letters(pair.target):
            return "untranslated"
        if self.same_numbers and numbers(pair.source) != numbers(pair.target):
            return "other numbers"
        if self.machine is not None:
            made, found = pair if self.machine == "source" else pair[::-1]
            if len(made) > 3 * len(found) + 30:
                return "machine goes on"
            if _LOOP.search(made) and not _LOOP.search(found):
                return "machine repeats itself"
        # Asked last, since whoever asks is remembered.
        if not self.generated and not self.known.add(f"{pair.source}\n{pair.target}"):
            return "duplicate"
        return None


def _letters(text: str) -> str:
    """What is left of a text without case, blanks and marks."""
    return "".join(filter(str.isalnum, text.casefold()))
