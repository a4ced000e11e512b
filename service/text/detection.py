"""Language detection by ``lingua`` among the languages on offer.

Private-use codes and languages unknown to lingua are returned only if they are the only candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from lingua import IsoCode639_1, Language, LanguageDetector, LanguageDetectorBuilder

from service.text.types import Detection

_CHARACTERS = 2_000
"""Detection reads at most this many characters of a text."""
_SETS_OF_LANGUAGES = 64


class LinguaDetector:
    """Loads a language's tables on first use: a third of a second and some tens of MB.

    Loading blocks all threads of the process; see ``prepare``.
    """

    def __init__(self) -> None:
        self._detector_of = lru_cache(maxsize=_SETS_OF_LANGUAGES)(_build)

    def prepare(self, languages: Sequence[str]) -> None:
        """Load the tables of these languages ahead of the first request."""
        codes = dict(_known(languages))
        if len(codes) > 1:
            # The tables are shared by all detectors of the process.
            _builder(codes).with_preloaded_language_models().build()

    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The probable languages of a text among those given, the likeliest first. Blocks.

        Empty if none is probable. Confidences sum to 1.
        """
        if not any(character.isalpha() for character in text):
            return ()
        if len(languages) == 1:
            return (Detection(languages[0], 1.0),)
        codes = dict(_known(languages))
        if len(codes) < 2:
            return tuple(Detection(code, 1.0) for code in codes.values())
        detector = self._detector_of(frozenset(codes))
        found = detector.compute_language_confidence_values(text[:_CHARACTERS])
        return tuple(Detection(codes[f.language], f.value) for f in found if f.value > 0)


def _known(languages: Sequence[str]) -> Iterator[tuple[Language, str]]:
    # lingua has one language for variants such as zh and zh-Hant; the first one listed is used.
    for code in reversed(languages):
        iso = getattr(IsoCode639_1, code.partition("-")[0].upper(), None)
        if iso is not None:
            yield Language.from_iso_code_639_1(iso), code


def _build(languages: frozenset[Language]) -> LanguageDetector:
    return _builder(languages).build()


def _builder(languages: Iterable[Language]) -> LanguageDetectorBuilder:
    return LanguageDetectorBuilder.from_languages(*languages)
