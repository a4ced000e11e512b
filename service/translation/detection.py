"""Which language a text is in, by ``lingua``, of those that are on offer.

Private-use codes and languages that lingua does not know are never guessed, unless nothing else is
on offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from lingua import IsoCode639_1, Language, LanguageDetector, LanguageDetectorBuilder

from service.translation.types import Detection

_CHARACTERS = 2_000
"""Of a long text, so many say enough."""
_SETS_OF_LANGUAGES = 64


class LinguaDetector:
    """Reads the tables of a language when it first meets it: a third of a second, and some tens of
    MB. Nothing else runs in the process meanwhile, in whichever thread; see ``prepare``."""

    def __init__(self) -> None:
        self._detector_of = lru_cache(maxsize=_SETS_OF_LANGUAGES)(_build)

    def prepare(self, languages: Sequence[str]) -> None:
        """Read the tables of these languages before anybody waits, unless they have been read."""
        codes = dict(_known(languages))
        if len(codes) > 1:
            # The tables belong to the process, not to the detector that was built for them.
            _builder(codes).with_preloaded_language_models().build()

    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The languages a text may be in, of those given, the likeliest first. Blocks.

        Empty if nothing in the text speaks for any of them. Confidences sum to 1.
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
    # Written variants of a language, such as zh and zh-Hant, are one to lingua: the first stands.
    for code in reversed(languages):
        iso = getattr(IsoCode639_1, code.partition("-")[0].upper(), None)
        if iso is not None:
            yield Language.from_iso_code_639_1(iso), code


def _build(languages: frozenset[Language]) -> LanguageDetector:
    return _builder(languages).build()


def _builder(languages: Iterable[Language]) -> LanguageDetectorBuilder:
    return LanguageDetectorBuilder.from_languages(*languages)
