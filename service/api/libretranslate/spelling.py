"""Language codes as LibreTranslate spells them.

It writes BCP 47 and takes its own short names of three languages as well. Two of those any reader
of codes here knows (``models.bundle.languages``); the third is Chinese, which is simplified
wherever nobody says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection

_CHINESE, _SIMPLIFIED_CHINESE = "zh", "zh-Hans"

AUTO = "auto"
"""In the place of a source: find out."""


def written(code: str) -> str:
    """How an answer spells a canonical code."""
    return _SIMPLIFIED_CHINESE if code == _CHINESE else code


def read(code: str, offered: Collection[str]) -> str:
    """What a request means by a code, given the canonical codes on offer."""
    for meant, said in (
        (_CHINESE, _SIMPLIFIED_CHINESE),
        (_SIMPLIFIED_CHINESE, _CHINESE),
    ):
        if code.lower() == said.lower() and said not in offered and meant in offered:
            return meant
    return code


def read_source(code: str, offered: Collection[str]) -> str | None:
    """As ``read``; ``None`` where the language is to be found out."""
    return None if code.lower() == AUTO else read(code, offered)
