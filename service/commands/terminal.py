"""Sentences on standard error, with colours where that is a terminal."""

from __future__ import annotations

import sys

_BOLD, _RED, _PLAIN = "\033[1m", "\033[1;31m", "\033[0m"


def say(sentence: str, *, problem: bool = False) -> None:
    """Print a sentence; the name before a ``problem`` is red on a terminal."""
    name = "dragoman:"
    if _coloured():
        name = f"{_RED if problem else _BOLD}{name}{_PLAIN}"
    print(name, sentence, file=sys.stderr)


def _coloured() -> bool:
    if not sys.stderr.isatty():
        return False
    # The settings take a while to import, and help needs none.
    from service.settings import allows_colours

    return allows_colours()
