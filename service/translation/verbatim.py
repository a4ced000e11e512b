"""Predicate of sentences that are copied untranslated: without letters, or only codes or paths."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(
    r"""
      :// | [@\#\\]                                # URL, e-mail address, @user, #hashtag, C:\path
    | \A[.~]{0,2}/                                 # path
    | [^\W_]_[^\W_]                                # snake_case
    | \w{2}\.[^\W\d_] | \w\.[^\W\d_]\w             # example.com, main.c; not z.B.
    | \d\.\d+\.\d                                  # 1.2.3-beta, 12.05.2026
    """,
    re.VERBOSE,
)
_PARTS = re.compile(r"[^\W_]+")
_NUMBER_WITH_ENDING = re.compile(r"\d+(?:s|[^\W\d_]{2,})")
"""1980s, 1st, 90er, 10am; ``_is_word`` also requires lower case."""
_SHORTEST_WORD = 4


def is_verbatim(sentence: str) -> bool:
    """Whether a sentence has no letters, or consists of codes only.

    A code is a token between blanks that is an URL, e-mail address, path, ``@user``, ``#hashtag``,
    dotted or underscored identifier, or has a digit and no ordinary word: ``B12`` and
    ``XK-2024/B``, but not ``B12-Mangel``, ``1st`` or ``90er``. A token with letters of a script
    without cases is not a code, because such scripts may put no blanks between words.
    """
    return all(_is_code(token) for token in sentence.split() if _has_letters(token))


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _is_code(token: str) -> bool:
    """Requires a token with letters."""
    if any(character.isalpha() and not _has_case(character) for character in token):
        return False
    if _IDENTIFIER.search(token):
        return True
    if not any(map(str.isdecimal, token)):
        return False
    return not any(map(_is_word, _PARTS.findall(token)))


def _has_case(letter: str) -> bool:
    return letter.islower() or letter.isupper() or letter.istitle()


def _is_word(part: str) -> bool:
    """Whether a run of letters and digits belongs to ordinary language."""
    if part.isalpha():
        return len(part) >= _SHORTEST_WORD and not part.isupper()
    return part.islower() and _NUMBER_WITH_ENDING.fullmatch(part) is not None
