"""Scripts of languages and of letters, by ISO 15924 code.

``Jpan`` is written as its parts ``Hani`` and ``Kana``. Hangul syllables and Han characters weigh
more than letters of alphabets, because each of them stands for a syllable or a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_LANGUAGES = {
    "Arab": "ar arz ary apc ajp ckb fa ps sd ug ur azb ks",
    "Armn": "hy",
    "Beng": "as bn mni",
    "Cyrl": "ab ba be bg ce cv kk ky mk mn os ru sr tg tt uk",
    "Deva": "awa bho hi hne mag mai mr ne sa sat",
    "Ethi": "am ti",
    "Geor": "ka",
    "Grek": "el grc",
    "Gujr": "gu",
    "Guru": "pa",
    "Hang": "ko",
    "Hani": "ja lzh wuu yue zh",
    "Hebr": "he yi",
    "Kana": "ja",
    "Khmr": "km",
    "Knda": "kn",
    "Laoo": "lo",
    "Latn": "sr",
    "Mlym": "ml",
    "Mymr": "my shn",
    "Orya": "or",
    "Sinh": "si",
    "Taml": "ta",
    "Telu": "te",
    "Thai": "th",
    "Tibt": "bo dz",
}
"""Languages of each script. Languages that are not listed are written in Latin letters."""
_SCRIPTS_OF: dict[str, frozenset[str]] = {
    language: frozenset(s for s, those in _LANGUAGES.items() if language in those.split())
    for languages in _LANGUAGES.values()
    for language in languages.split()
}
_SUBTAGS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hani", "Kore": "Hang"}
_SUBTAG = re.compile(r"-([A-Z][a-z]{3})(?=-|\Z)")
_LATIN = frozenset({"Latn"})

_NAMES = {
    **{"ARABIC": "Arab", "ARMENIAN": "Armn", "BENGALI": "Beng", "CJK": "Hani", "CYRILLIC": "Cyrl"},
    **{"DEVANAGARI": "Deva", "ETHIOPIC": "Ethi", "GEORGIAN": "Geor", "GREEK": "Grek"},
    **{"GUJARATI": "Gujr", "GURMUKHI": "Guru", "HANGUL": "Hang", "HEBREW": "Hebr"},
    **{"HIRAGANA": "Kana", "KATAKANA": "Kana", "KATAKANA-HIRAGANA": "Kana", "KANNADA": "Knda"},
    **{"KHMER": "Khmr", "LAO": "Laoo", "LATIN": "Latn", "MALAYALAM": "Mlym", "MYANMAR": "Mymr"},
    **{"ORIYA": "Orya", "SINHALA": "Sinh", "TAMIL": "Taml", "TELUGU": "Telu", "THAI": "Thai"},
    **{"TIBETAN": "Tibt", "FULLWIDTH": "Latn", "HALFWIDTH": "Kana"},
}
"""First word of the Unicode names of a script's letters, and the script."""
_WEIGHTS = {"Hani": 3, "Kana": 2, "Hang": 2}


def scripts_of(language: str) -> frozenset[str]:
    """The scripts in which a language, a canonical code, is written."""
    if found := _SUBTAG.search(language):
        return frozenset({_SUBTAGS.get(found[1], found[1])})
    return _SCRIPTS_OF.get(language.partition("-")[0], _LATIN)


def letters_by_script(text: str) -> Counter[str]:
    """Weight of the letters of a text in each script; other scripts are ``Zzzz``."""
    found: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            name = unicodedata.name(character, "").partition(" ")[0]
            script = _NAMES.get(name, "Zzzz")
            found[script] += count * _WEIGHTS.get(script, 1)
    return found
