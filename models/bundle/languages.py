"""Canonical language codes (BCP 47, standardised by ``langcodes``) and their English names.

Private-use codes (``x-digits``) are accepted like other codes, so that a toy model can be served.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import langcodes

# LibreTranslate's own codes, which BCP 47 does not define.
_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}

PRIVATE_USE = "x-"
_UNDETERMINED = "und"
_LONGEST_CODE = 35
"""RFC 5646, section 4.4.1: long enough for every code in practical use."""

_MOST_KEPT = 4_096


class _Bounded(dict[Any, Any]):
    """Takes no more entries once it is full. It removes none, because threads share it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) < _MOST_KEPT:
            super().__setitem__(key, value)


# langcodes keeps every code that it reads, and each request may have another one.
langcodes.Language._INSTANCES = _Bounded()
langcodes.Language._PARSE_CACHE = _Bounded()


@lru_cache(maxsize=1_000)
def canonical(code: str) -> str:
    """The canonical spelling of a language code: ``DE``, ``deu`` and ``de-Latn`` all become ``de``.

    Raises ``ValueError`` naming the code if it is not a language code.
    """
    if len(code) > _LONGEST_CODE:
        raise ValueError(
            f"{code[:_LONGEST_CODE]!r}… is not a language code: it has more than "
            f"{_LONGEST_CODE} characters"
        )
    alias = _ALIASES.get(code.lower())
    if alias is not None:
        return alias
    try:
        standard = langcodes.standardize_tag(code)
    except ValueError as error:
        raise ValueError(f"{code!r} is not a language code: {error}") from error
    if standard == _UNDETERMINED or not langcodes.Language.get(standard).is_valid():
        raise ValueError(f"{code!r} is not the code of a known language")
    return standard


def without_region(code: str) -> str:
    """A canonical code without its region, if the region writes the language's usual script.

    ``en-US`` becomes ``en``. ``zh-TW`` and codes that are not of a language and a region stay.
    """
    tag = langcodes.Language.get(code)
    language = langcodes.Language.make(tag.language)
    regional = tag == langcodes.Language.make(tag.language, territory=tag.territory)
    if regional and tag.maximize().script == language.maximize().script:
        return language.to_tag()
    return code


def display_name(code: str) -> str:
    """The language's English name; for a private-use code, its subtags as words."""
    standard = canonical(code)
    if standard.startswith(PRIVATE_USE):
        return standard.removeprefix(PRIVATE_USE).replace("-", " ")
    return langcodes.Language.get(standard).display_name("en")
