"""Reads parallel text by name, plain or gzipped, line by line."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from training.data.generated import generate
from training.recipe import Corpus


class Pair(NamedTuple):
    source: str
    target: str


class CorpusError(Exception):
    """A corpus is missing or broken, and what to do."""


def read_pairs(corpus: Corpus, source: str, target: str, directory: Path) -> Iterator[Pair]:
    """The pairs of a corpus, unchanged.

    Raises ``CorpusError`` if a side is missing, is not UTF-8, or has more lines than the other.
    """
    if corpus.generator is not None:
        yield from (Pair(*pair) for pair in generate(corpus.generator, corpus.name, corpus.pairs))
        return
    source_path = find_side(corpus.name, source, directory)
    target_path = find_side(corpus.name, target, directory)
    sides = itertools.zip_longest(read_lines(source_path), read_lines(target_path))
    for number, (source_line, target_line) in enumerate(sides, start=1):
        if source_line is None or target_line is None:
            shorter = source_path if source_line is None else target_path
            raise CorpusError(
                f"{shorter} ends before line {number}; both sides of a corpus must have the same "
                "number of lines"
            )
        yield Pair(source_line, target_line)


def find_side(name: str, language: str, directory: Path) -> Path:
    """The file of one language of a corpus, plain or gzipped."""
    plain = directory / f"{name}.{language}"
    zipped = directory / f"{name}.{language}.gz"
    for path in (plain, zipped):
        if path.is_file():
            return path
    raise CorpusError(
        f"corpus {name!r} has no {language} side: put it at {plain} or {zipped}, or name another "
        "data directory with --data or TRAINING_DATA"
    )


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, plain or gzipped; raises ``CorpusError`` if it cannot be read."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            # Bytes are split at newlines only: text mode and str.splitlines would also split at
            # characters such as U+2028 that may stand within a sentence.
            for number, line in enumerate(file, start=1):  # noqa: B007
                yield line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}, line {number} is not UTF-8: {error}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path} is not a whole gzip file: {error}") from error
