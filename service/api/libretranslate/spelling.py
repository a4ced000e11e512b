"""Converts language codes to and from LibreTranslate's spelling.

LibreTranslate writes BCP 47 and accepts short names of three languages. ``models.bundle.languages``
reads two of them for every API. The third is ``zh``, which is simplified Chinese by default.
"""

from __future__ import annotations

from collections.abc import Collection

_CHINESE, _SIMPLIFIED_CHINESE = "zh", "zh-Hans"

AUTO = "auto"
"""Source value that requests language detection."""


def written(code: str) -> str:
    """A canonical code in the spelling of answers."""
    return _SIMPLIFIED_CHINESE if code == _CHINESE else code


def read(code: str, offered: Collection[str]) -> str:
    """The canonical code of a code in a request, given the loaded canonical codes."""
    for meant, said in (
        (_CHINESE, _SIMPLIFIED_CHINESE),
        (_SIMPLIFIED_CHINESE, _CHINESE),
    ):
        if code.lower() == said.lower() and said not in offered and meant in offered:
            return meant
    return code


def read_source(code: str, offered: Collection[str]) -> str | None:
    """Like ``read``; ``None`` requests language detection."""
    return None if code.lower() == AUTO else read(code, offered)
