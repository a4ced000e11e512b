"""Normalises parallel text and filters bad pairs, counting the drops of each filter."""

from __future__ import annotations

import functools
import html
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from html.entities import html5
from typing import Literal

from lingua import IsoCode639_1, Language, LanguageDetectorBuilder

from models.text import UNSPACED, numbers, repeats_itself, visible
from training.data.corpus import Pair
from training.data.seen import Seen, key_of

_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_DIGITS = re.compile(r"\d+")

_LANGUAGES = ("EN", "DE", "FR", "ES", "IT", "NL")
"""Languages to distinguish, besides the two of the pair."""
_DISTANCE = 0.3
"""Minimum lead in confidence over the next language; below it a side is not judged."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
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


def word_count(text: str) -> int:
    """Number of words; in scripts without blanks, two characters count as one."""
    return len(text.split()) + len(_UNSPACED.findall(text)) // 2


def normalised(pair: Pair) -> Pair:
    return Pair(normalise(pair.source), normalise(pair.target))


def _character(entity: re.Match[str]) -> str:
    # html.unescape decodes the prefix of an unknown name: "&notit;" would become "¬it;".
    known = entity[0][1] == "#" or entity[0][1:] in html5
    return html.unescape(entity[0]) if known else entity[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of single pairs, whose verdicts depend on nothing but the pair."""

    max_words: int
    max_ratio: float
    same_numbers: bool = False
    generated: bool = False
    """Keep pairs with equal sides, because the task may be copying."""
    machine: Literal["source", "target"] | None = None
    """The machine-translated side, which may repeat itself or be far too long."""
    noisy: tuple[str, str] | None = None
    """The declared languages of the sides, to be verified; ``None`` to trust them."""
    held_out: Set[str] = frozenset()
    """Test sentences in the form of ``sides_of``; pairs with an equal side are dropped."""
    tested: Set[str] = frozenset()
    """Test sentences in the same form, whose occurrences are reported."""

    def judge(self, raw: Sequence[Pair]) -> Verdicts:
        pairs: list[Pair] = []
        objections: list[str | None] = []
        tested: dict[int, Set[str]] = {}
        for found in raw:
            pair = normalised(found)
            objection = self._objection(pair)
            if objection is None and (self.held_out or self.tested):
                sides = sides_of(pair)
                if not self.held_out.isdisjoint(sides):
                    objection = "held out"
                elif occurring := self.tested & sides:
                    tested[len(pairs)] = occurring
            pairs.append(pair)
            objections.append(objection)
        if self.noisy is not None:
            passed = [i for i, objection in enumerate(objections) if objection is None]
            identifier = _identifier(*self.noisy)
            for i in identifier.in_another_language({i: raw[i] for i in passed}):
                objections[i] = "other language"
        return Verdicts(*Pair.columns(pairs), objections, tested)

    def _objection(self, pair: Pair) -> str | None:
        source, target = word_count(pair.source), word_count(pair.target)
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
        return None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A block of normalised pairs, and for each the filter that rejects it, or ``None``.

    Lists of texts instead of pairs, because processes exchange them several times as fast.
    """

    sources: list[str]
    targets: list[str]
    objections: list[str | None]
    tested: dict[int, Set[str]]
    """The test sentences that a pair contains, by its place."""


@dataclass(slots=True, kw_only=True)
class Cleaner:
    """Drops what filters reject and what is known already, in the order of the text, and counts.

    ``dropped`` counts by the name of the first filter that rejects a pair.
    """

    generated: bool = False
    """Keep duplicates, because there are only ten one-digit texts."""
    same_template: int | None = None
    """Maximum number of pairs that differ only in their figures."""
    known: Seen = field(default_factory=Seen)
    """Kept pairs and their templates, of this corpus and others."""
    added: array[int] = field(default_factory=lambda: array("Q"))
    """Keys that were added to ``known``, until the caller removes them."""
    seen: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def kept_of(self, verdicts: Verdicts) -> Iterator[int]:
        """The places of the pairs of a block that are kept."""
        texts = zip(verdicts.sources, verdicts.targets, verdicts.objections, strict=True)
        for place, (source, target, objection) in enumerate(texts):
            self.seen += 1
            objection = objection or self._repeated(f"{source}\n{target}")
            if objection is None:
                self.kept += 1
                yield place
            else:
                self.dropped[objection] += 1

    def _repeated(self, text: str) -> str | None:
        if not self.generated and not self._add(text):
            return "duplicate"
        if self.same_template is not None and not self._few_alike(text):
            return "boilerplate"
        return None

    def _few_alike(self, text: str) -> bool:
        template = _DIGITS.sub("0", text)
        if template == text:
            return True
        assert self.same_template is not None
        return any(self._add(f"{template}\n{i}") for i in range(self.same_template))

    def _add(self, text: str) -> bool:
        key = key_of(text)
        if not self.known.add_key(key):
            return False
        self.added.append(key)
        return True


class _Identifier:
    """Finds sides in another language than declared, with ``lingua``, in this thread."""

    def __init__(self, source: str, target: str) -> None:
        codes = {code.partition("-")[0].upper() for code in (source, target)}
        self._wanted = [_language(code) for code in (source, target)]
        languages = {_language(code) for code in (*codes, *_LANGUAGES)} - {None}
        builder = LanguageDetectorBuilder.from_languages(*filter(None, languages))
        self._detector = builder.with_minimum_relative_distance(_DISTANCE).build()

    def in_another_language(self, pairs: Mapping[int, Pair]) -> set[int]:
        """The numbers of the pairs of which a side is in another language than its own."""
        return {
            number for number, pair in pairs.items() if any(map(self._is_other, pair, self._wanted))
        }

    def _is_other(self, side: str, wanted: Language | None) -> bool:
        if wanted is None or word_count(side) < _FEWEST_WORDS:
            return False
        return self._detector.detect_language_of(side) not in (None, wanted)


_identifier = functools.cache(_Identifier)


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
    """The sides of four or more words of a normalised pair, without case, blanks and marks."""
    return {_letters(side) for side in pair if word_count(side) >= _FEWEST_WORDS}


def _overlap(pair: Pair) -> float:
    """Share of the shorter side's words that also occur on the other side."""
    shorter, longer = sorted((side.casefold().split() for side in pair), key=len)
    if len(shorter) < _FEWEST_WORDS:
        return 0.0
    return sum((Counter(shorter) & Counter(longer)).values()) / len(shorter)


def _letters(text: str) -> str:
    """A text without case, blanks and marks."""
    return "".join(filter(str.isalnum, text.casefold()))
