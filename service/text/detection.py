"""Language detection among the languages on offer: by script, then by ``lingua`` and by letters.

Languages whose script the text is not in are left out first, so that a language with a script of
its own is found by its letters, also if lingua does not know it. Private-use codes are returned
only if they are the only candidate. Languages that are not on offer are found by lingua alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from lingua import IsoCode639_1, Language, LanguageDetector, LanguageDetectorBuilder

from service.text.scripts import letters_by_script, scripts_of
from service.text.types import Detection

_CHARACTERS = 2_000
"""Detection reads at most this many characters of a text."""
_CHARACTERS_OF_UNSERVED = 500
_SURELY_UNSERVED = 0.9
"""Least confidence that a text is in a language that is not on offer. Of sentences in languages on
offer, 0.5 % are above it; docs/log.md has the others."""
_TIMES_SERVED = 5
"""How much more probable it has to be than each language on offer."""
_SETS_OF_LANGUAGES = 64
_LEAST_SHARE = 0.8
"""A candidate's share of the letters, relative to the best one. Chinese has no kana, but a Japanese
text may be nearly all Han characters."""

MOST_WITH_ALL_TABLES = 16
"""The number of languages of one script above which lingua has its tables of three letters only:
60 instead of 1,000 MB for 45 languages, and less accuracy for short texts (docs/log.md,
2026-11-26)."""

_OWN_LETTERS = {"mt": frozenset("ħġċĦĠĊ")}
"""Letters of languages that lingua does not know."""
_STAND_INS = {"sr": ("hr", "bs")}
"""Languages whose Latin texts lingua takes for one of others, the first of which stands for it."""
_TRADITIONAL = frozenset(
    "們這國來時說會對為學個過發後經麼樣動話還進沒開問實現見點長關兩應與義權則條認間給讓從聽書東車愛門語機電"
    "頭氣體邊達遠運無業產處覺總報該難親腦網買賣錢歲誰嗎"
)
_SIMPLIFIED = frozenset(
    "们这国来时说会对为学个过发后经么样动话还进没开问实现见点长关两应与义权则条认间给让从听书东车爱门语机电"
    "头气体边达远运无业产处觉总报该难亲脑网买卖钱岁谁吗"
)
_TRADITIONAL_CODES = ("Hant", "TW", "HK", "MO")


class LinguaDetector:
    """Loads a language's tables on first use: a third of a second and some tens of MB.

    Loading blocks all threads of the process; see ``prepare``.
    """

    def __init__(self) -> None:
        self._detector_of = lru_cache(maxsize=_SETS_OF_LANGUAGES)(_build)
        self._prepared: frozenset[str] = frozenset()
        self._all: LanguageDetector | None = None

    def prepare(self, languages: Sequence[str]) -> None:
        """Load the tables of these and of earlier languages that share a script, ahead of use."""
        prepared = self._prepared.union(languages)
        if prepared == self._prepared:
            return
        self._prepared = prepared
        for script in {script for code in prepared for script in scripts_of(code)}:
            known = dict(_known([code for code in prepared if script in scripts_of(code)]))
            if len(known) > 1:
                # The tables are shared by all detectors of the process.
                _builder(known).with_preloaded_language_models().build()
        self._of_all(preloaded=True)

    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The probable languages of a text among those given, the likeliest first. Blocks.

        Empty if none is probable. Confidences sum to 1 at most.
        """
        if not any(character.isalpha() for character in text):
            return ()
        if len(languages) == 1:
            return (Detection(languages[0], 1.0),)
        text = _beginning(text, _CHARACTERS)
        candidates, share = _in_script(text, languages)
        if own := _by_own_letters(text, candidates):
            return (Detection(own[0], share),)
        codes = dict(_known(candidates, text))
        if len(codes) > 1:
            detector = self._detector_of(frozenset(codes))
            found = detector.compute_language_confidence_values(text)
            return tuple(Detection(codes[f.language], f.value) for f in found if f.value > 0)
        if codes:
            return tuple(Detection(code, share) for code in codes.values())
        return (Detection(candidates[0], share),) if len(candidates) == 1 else ()

    def unserved(self, text: str, languages: Sequence[str]) -> Detection | None:
        """The language that a text is in, if that is very probably none of those given. Blocks.

        Compares all languages that lingua knows, by tables of three letters only: 70 MB.
        """
        if not any(character.isalpha() for character in text) or _by_own_letters(text, languages):
            return None
        served = {language for language, _ in _known(languages)}
        found = self._of_all().compute_language_confidence_values(
            _beginning(text, _CHARACTERS_OF_UNSERVED)
        )
        best, shares = found[0], {each.language: each.value for each in found}
        if best.language in served or best.value < _SURELY_UNSERVED:
            return None
        if best.value < _TIMES_SERVED * max((shares[each] for each in served), default=0.0):
            return None
        return Detection(best.language.iso_code_639_1.name.lower(), best.value)

    def _of_all(self, *, preloaded: bool = False) -> LanguageDetector:
        if self._all is None:
            builder = LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode()
            # A command that detects once loads only what its text needs: 0.2 s less.
            self._all = (builder.with_preloaded_language_models() if preloaded else builder).build()
        return self._all


def _beginning(text: str, most: int) -> str:
    """Characters of a text from its first letter on; figures before it may be many."""
    start = next(place for place, character in enumerate(text) if character.isalpha())
    return text[start : start + most]


def _in_script(text: str, languages: Sequence[str]) -> tuple[list[str], float]:
    """The languages that have about as many of the letters as the best one; share of that one."""
    letters = letters_by_script(text)
    shares = {c: sum(letters[script] for script in scripts_of(c)) for c in languages}
    most = max(shares.values(), default=0)
    kept = [code for code, share in shares.items() if share and share >= _LEAST_SHARE * most]
    return kept, most / max(letters.total(), 1)


def _by_own_letters(text: str, languages: Sequence[str]) -> list[str]:
    """The languages of which the text has a letter that no other language has."""
    written = frozenset(text)
    return [code for code in languages if _OWN_LETTERS.get(code, frozenset()) & written]


def _known(languages: Sequence[str], text: str = "") -> Iterator[tuple[Language, str]]:
    """lingua's language of each code, of which the last is used for a language.

    Of variants, Chinese characters decide, then the shorter code, then the first one listed.
    """
    written = frozenset(text)
    traditional = len(written & _TRADITIONAL) > len(written & _SIMPLIFIED)

    def fits(code: str) -> tuple[bool, int]:
        return code.endswith(_TRADITIONAL_CODES) == traditional, -len(code)

    for code in sorted(reversed(languages), key=fits):
        base = code.partition("-")[0]
        iso = getattr(IsoCode639_1, base.upper(), None)
        if iso is not None:
            yield Language.from_iso_code_639_1(iso), code
            for other in _STAND_INS.get(base, ())[:1]:
                if not {*_STAND_INS[base]} & set(languages):
                    stand_in = getattr(IsoCode639_1, other.upper())
                    yield Language.from_iso_code_639_1(stand_in), code


def _build(languages: frozenset[Language]) -> LanguageDetector:
    return _builder(languages).build()


def _builder(languages: Iterable[Language]) -> LanguageDetectorBuilder:
    builder = LanguageDetectorBuilder.from_languages(*languages)
    if len(set(languages)) > MOST_WITH_ALL_TABLES:
        builder = builder.with_low_accuracy_mode()
    return builder
