"""Normalises parallel text and filters bad pairs, counting the drops of each filter."""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from html.entities import html5
from typing import Literal

from lingua import IsoCode639_1, Language, LanguageDetectorBuilder

from models.text import numbers, repeats_itself, visible
from training.data.corpus import Pair
from training.data.seen import Seen

_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_DIGITS = re.compile(r"\d+")

_PART = 2_000
"""Pairs per language identification call, which uses all cores."""
_LANGUAGES = ("EN", "DE", "FR", "ES", "IT", "NL")
"""Languages to distinguish, besides the two of the pair."""
_DISTANCE = 0.3
"""Minimum lead in confidence over the next language; below it a side is not judged."""
_FEWEST_WORDS = 4
"""Minimum words of a side for its language, its overlap or its equality with a test sentence to
be judged."""
_MOST_SHARED = 0.6
"""Maximum share of the shorter side's words that may also occur on the other side."""
_MOST_CHARACTERS = 20
"""Maximum length of a side in characters, for each word that it may have. SentencePiece takes
quadratic time for a word without end."""


def normalise(text: str) -> str:
    """NFC text without control and zero-width characters, with HTML entities decoded (``&amp;`` is
    ``&``) and every run of blanks collapsed to one."""
    while True:
        plain = _ENTITY.sub(_character, text) if "&" in text else text
        plain = visible(plain)
        # Repeated for entities that were encoded twice or had an invisible character within.
        if plain == text or "&" not in plain:
            return plain
        text = plain


def _character(entity: re.Match[str]) -> str:
    # html.unescape decodes the prefix of an unknown name: "&notit;" would become "¬it;".
    known = entity[0][1] == "#" or entity[0][1:] in html5
    return html.unescape(entity[0]) if known else entity[0]


@dataclass(slots=True, kw_only=True)
class Cleaner:
    """Filters pairs; ``dropped`` counts by the name of the first filter that rejects a pair."""

    max_words: int
    max_ratio: float
    same_numbers: bool = False
    generated: bool = False
    """Keep pairs with equal sides, because the task may be copying, and duplicates, because there
    are only ten one-digit texts."""
    machine: Literal["source", "target"] | None = None
    """The machine-translated side, which may repeat itself or be far too long."""
    noisy: tuple[str, str] | None = None
    """The declared languages of the sides, to be verified; ``None`` to trust them."""
    held_out: Set[str] = frozenset()
    """Test sentences in the form of ``sides_of``; pairs with an equal side are dropped."""
    same_template: int | None = None
    """Maximum number of pairs that differ only in their figures."""
    known: Seen = field(default_factory=Seen)
    """Kept pairs and their templates, of this corpus and others."""
    seen: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        # Cheap filters first. The last ones record the pair in ``known``.
        for pair in self._identified(self._plausible(pairs)):
            objection = self._repeated(pair)
            if objection is None:
                self.kept += 1
                yield pair
            else:
                self.dropped[objection] += 1

    def _plausible(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, Pair]]:
        """Each pair that passes the filters of single pairs, as found and normalised."""
        for raw in pairs:
            self.seen += 1
            pair = Pair(normalise(raw.source), normalise(raw.target))
            objection = self._objection(pair)
            if objection is None:
                yield raw, pair
            else:
                self.dropped[objection] += 1

    def _identified(self, pairs: Iterator[tuple[Pair, Pair]]) -> Iterator[Pair]:
        """The pairs in the declared languages, if they are to be verified."""
        if self.noisy is None:
            yield from (pair for _, pair in pairs)
            return
        identifier = _Identifier(*self.noisy)
        while part := list(itertools.islice(pairs, _PART)):
            wrong = identifier.in_another_language([raw for raw, _ in part])
            for (_, pair), other in zip(part, wrong, strict=True):
                if other:
                    self.dropped["other language"] += 1
                else:
                    yield pair

    def _objection(self, pair: Pair) -> str | None:
        source, target = len(pair.source.split()), len(pair.target.split())
        if not source or not target:
            return "empty"
        if max(source, target) > self.max_words:
            return "too long"
        if max(map(len, pair)) > _MOST_CHARACTERS * self.max_words:
            return "too many characters"
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
            if repeats_itself(made) and not repeats_itself(found):
                return "machine repeats itself"
        if self.noisy is not None and _overlap(pair) > _MOST_SHARED:
            return "overlap"
        if not self.held_out.isdisjoint(sides_of(pair)):
            return "held out"
        return None

    def _repeated(self, pair: Pair) -> str | None:
        if self.same_template is not None and not self._few_alike(pair):
            return "boilerplate"
        if not self.generated and not self.known.add(f"{pair.source}\n{pair.target}"):
            return "duplicate"
        return None

    def _few_alike(self, pair: Pair) -> bool:
        text = f"{pair.source}\n{pair.target}"
        template = _DIGITS.sub("0", text)
        if template == text:
            return True
        assert self.same_template is not None
        return any(self.known.add(f"{template}\n{i}") for i in range(self.same_template))


class _Identifier:
    """Finds sides in another language than declared, with ``lingua``."""

    def __init__(self, source: str, target: str) -> None:
        codes = {code.partition("-")[0].upper() for code in (source, target)}
        self._wanted = [_language(code) for code in (source, target)]
        languages = {_language(code) for code in (*codes, *_LANGUAGES)} - {None}
        builder = LanguageDetectorBuilder.from_languages(*filter(None, languages))
        self._detector = builder.with_minimum_relative_distance(_DISTANCE).build()

    def in_another_language(self, pairs: Sequence[Pair]) -> list[bool]:
        """Whether a side of each pair is in another language than its own."""
        wrong = [False] * len(pairs)
        for side, wanted in zip(zip(*pairs, strict=True), self._wanted, strict=True):
            if wanted is None:
                continue
            found = self._detector.detect_languages_in_parallel_of(list(side))
            for i, language in enumerate(found):
                if language not in (None, wanted) and len(side[i].split()) >= _FEWEST_WORDS:
                    wrong[i] = True
        return wrong


def order_of(first: str, second: str, *codes: str) -> tuple[str, str] | None:
    """The languages of two texts, which are in two different ones of ``codes``, with ``lingua``.

    ``None`` if that is not clear.
    """
    languages = [_language(code) for code in codes]
    known = [language for language in languages if language is not None]
    if len(set(known)) < len(codes):
        return None
    builder = LanguageDetectorBuilder.from_languages(*known)
    detector = builder.with_minimum_relative_distance(_DISTANCE).build()
    found = [detector.detect_language_of(text) for text in (first, second)]
    if None in found or found[0] == found[1]:
        return None
    return codes[languages.index(found[0])], codes[languages.index(found[1])]


def swapped(pairs: Sequence[Pair], source: str, target: str) -> bool:
    """Whether most of each side is in the language of the other, with ``lingua``."""
    wanted = [_language(code) for code in (target, source)]
    if None in wanted or wanted[0] == wanted[1]:
        return False
    detector = LanguageDetectorBuilder.from_languages(*filter(None, wanted)).build()
    return all(
        2 * detector.detect_languages_in_parallel_of(list(side)).count(language) > len(side)
        for side, language in zip(zip(*pairs, strict=True), wanted, strict=True)
    )


def _language(code: str) -> Language | None:
    """``lingua``'s name of a language; ``None`` if it does not support it."""
    iso = getattr(IsoCode639_1, code.partition("-")[0].upper(), None)
    return None if iso is None else Language.from_iso_code_639_1(iso)


def sides_of(pair: Pair) -> set[str]:
    """The sides of four or more words, without case, blanks and marks."""
    return {_letters(side) for side in pair if len(side.split()) >= _FEWEST_WORDS}


def _overlap(pair: Pair) -> float:
    """Share of the shorter side's words that also occur on the other side."""
    shorter, longer = sorted((side.casefold().split() for side in pair), key=len)
    if len(shorter) < _FEWEST_WORDS:
        return 0.0
    return sum((Counter(shorter) & Counter(longer)).values()) / len(shorter)


def _letters(text: str) -> str:
    """A text without case, blanks and marks."""
    return "".join(filter(str.isalnum, text.casefold()))
