"""Standard error of commands: sentences, with colours on a terminal, and progress."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

_BOLD, _RED, _PLAIN = "\033[1m", "\033[1;31m", "\033[0m"


def say(sentence: str, *, problem: bool = False) -> None:
    """Print a sentence; the name before a ``problem`` is red on a terminal."""
    name = "dragoman:"
    if _coloured():
        name = f"{_RED if problem else _BOLD}{name}{_PLAIN}"
    print(name, sentence, file=sys.stderr)


class Failures:
    """Failures of several files. An error of many is printed for the first one, and for all others
    together at the end."""

    def __init__(self) -> None:
        self._files: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, file: str, message: str) -> None:
        self._files[message].append(file)
        if len(self._files[message]) == 1:
            say(f"{file}: {message}", problem=True)

    def end(self) -> int:
        """How many files failed."""
        for message, (_, *others) in self._files.items():
            if others:
                say(f"{', '.join(others)}: {message}", problem=True)
        return sum(map(len, self._files.values()))


def shows_progress(options: argparse.Namespace) -> bool:
    """Whether to show a progress bar: as ``--progress`` says, else on a terminal only."""
    return bool(sys.stderr.isatty() if options.progress is None else options.progress)


def _coloured() -> bool:
    if not sys.stderr.isatty():
        return False
    # The settings take a while to import, and help needs none.
    from service.settings import allows_colours

    return allows_colours()
