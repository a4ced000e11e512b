"""Reads parallel corpora by name, plain or gzipped, line by line."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from training.data.generated import generate
from training.recipe import Corpus
from training.refusal import Refusal

OWN_CORPORA = Path(__file__).parent / "corpora"
"""Small corpora that come with the project."""


class Pair(NamedTuple):
    source: str
    target: str

    @property
    def is_full(self) -> bool:
        """Whether both sides have more than blanks."""
        return all(side.strip() for side in self)

    @staticmethod
    def columns(pairs: Iterable[Pair]) -> tuple[list[str], list[str]]:
        """The sources and the targets, in lists that processes exchange faster than pairs."""
        pairs = list(pairs)
        return [pair.source for pair in pairs], [pair.target for pair in pairs]


class CorpusError(Refusal):
    """A corpus is missing or broken; the message says what to do."""


def read_pairs(
    corpus: Corpus, source: str, target: str, directory: Path, translated: Path | None = None
) -> Iterator[Pair]:
    """The pairs of a corpus, unchanged. Machine-translated sides are read from ``translated``.

    Raises ``CorpusError`` if a side is missing, is not UTF-8, or has more lines than the other.
    """
    if corpus.generator is not None:
        yield from (Pair(*pair) for pair in generate(corpus.generator, corpus.name, corpus.pairs))
        return
    paths = sides(corpus, source, target, directory, translated)
    lines = itertools.zip_longest(*map(read_lines, paths))
    for number, (source_line, target_line) in enumerate(lines, start=1):
        if source_line is None or target_line is None:
            longest = number + sum(1 for _ in lines)
            shorter, longer = paths if source_line is None else paths[::-1]
            raise CorpusError(
                f"{shorter} ends before line {number}, and {longer} has {longest} lines; line by "
                "line, one side of a corpus must be the translation of the other"
            )
        yield Pair(source_line, target_line)


def sampled(pairs: Iterable[Pair], count: int, most: int, run: int = 1) -> Iterator[Pair]:
    """At most ``most`` of ``count`` pairs, in evenly spread runs of ``run`` successive ones."""
    most = min(most, count)
    begins = (j - j % run for j in range(most))
    wanted = (-(-begin * count // most) + j - begin for j, begin in enumerate(begins))
    place = next(wanted, None)
    for i, pair in enumerate(pairs):
        if i == place:
            yield pair
            place = next(wanted, None)


def sides(
    corpus: Corpus, source: str, target: str, directory: Path, translated: Path | None = None
) -> tuple[Path, Path]:
    """The files of both sides of a corpus on disk; raises ``CorpusError`` if one is missing."""
    first, second = (
        find_translated(corpus, language, translated)
        if corpus.translated == side
        else find_side(corpus.name, language, directory, corpus.origin)
        for side, language in (("source", source), ("target", target))
    )
    return first, second


def has_sides(name: str, languages: tuple[str, str], directory: Path) -> bool:
    """Whether a corpus on disk has files in both languages."""
    try:
        for language in languages:
            find_side(name, language, directory)
    except CorpusError:
        return False
    return True


def find_side(name: str, language: str, directory: Path, origin: str | None = None) -> Path:
    """The file of one language of a corpus, plain or gzipped; raises ``CorpusError``.

    A corpus that is not in the directory may be one of the project's own.
    """
    plain = directory / f"{name}.{language}"
    zipped = directory / f"{name}.{language}.gz"
    for path in (plain, zipped, OWN_CORPORA / f"{name}.{language}"):
        if path.is_file():
            return path
    if not directory.is_dir():
        raise CorpusError(
            f"there is no data directory {directory}; name another one with --data or TRAINING_DATA"
        )
    raise CorpusError(
        f"corpus {name!r} has no {language} side: put it at {plain} or {zipped}, or name another "
        f"data directory with --data or TRAINING_DATA{'; it is ' + origin if origin else ''}"
    )


def translated_side(corpus: Corpus, language: str, translated: Path) -> Path:
    """Path of the side that the hop ``translate`` makes with the corpus's translator."""
    assert corpus.translator is not None, "only translated corpora have such a side"
    return translated / Path(corpus.translator).name / f"{corpus.name}.{language}.gz"


def find_translated(corpus: Corpus, language: str, translated: Path | None) -> Path:
    if translated is not None:
        path = translated_side(corpus, language, translated)
        if path.is_file():
            return path
    raise CorpusError(
        f"corpus {corpus.name!r} has not been translated into {language} by {corpus.translator}; "
        "run `python -m training translate RECIPE` first"
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
