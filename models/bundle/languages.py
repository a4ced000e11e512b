"""One code for each language: BCP 47, in the spelling ``langcodes`` standardises to.

Knows codes and their English names; knows nothing of which languages any model offers.
Private-use codes (``x-digits``) are languages like any other, so that a toy problem can be served.
"""

from __future__ import annotations

import langcodes

# LibreTranslate's own codes, which BCP 47 gives no meaning.
_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}

PRIVATE_USE = "x-"
_UNDETERMINED = "und"
_LONGEST_CODE = 35
"""RFC 5646, section 4.4.1: long enough for every code in practical use."""


def canonical(code: str) -> str:
    """The one spelling of a language code: ``DE``, ``deu`` and ``de-Latn`` are all ``de``.

    Raises ``ValueError`` naming the code if it is of no language.
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


def display_name(code: str) -> str:
    """The language's English name; of a private-use code, its own words."""
    standard = canonical(code)
    if standard.startswith(PRIVATE_USE):
        return standard.removeprefix(PRIVATE_USE).replace("-", " ")
    return langcodes.Language.get(standard).display_name("en")
