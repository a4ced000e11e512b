"""Test sets as sentence-aligned sources and references, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from training.data.corpus import CorpusError, find_side, read_lines
from training.refusal import Refusal

TOKENISED = "lc.norm.tok"
"""Infix of the lower-cased, normalised and tokenised version: ``<name>.lc.norm.tok``."""


class Misaligned(Refusal):
    """Files that should be sentence-aligned have different numbers of lines."""


@dataclass(frozen=True, slots=True)
class Bitext:
    """Sources and references that translations are scored against."""

    name: str
    source: str
    target: str
    """Language codes; empty if not given."""
    references: tuple[str, ...]
    sources: tuple[str, ...] | None
    """``None`` if only hypotheses and references are known."""
    tokenised_references: tuple[str, ...] | None = None

    @property
    def direction(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def title(self) -> str:
        """Name and direction: the heading of a section of the report."""
        return f"{self.name}, {self.direction}" if self.source and self.target else self.name

    def first(self, count: int) -> Bitext:
        """The first lines only."""

        def cut(lines: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if lines is None else lines[:count]

        return replace(
            self,
            references=self.references[:count],
            sources=cut(self.sources),
            tokenised_references=cut(self.tokenised_references),
        )


def find_bitext(name: str, source: str, target: str, directory: Path) -> Bitext:
    """The test set of a named corpus; raises ``CorpusError`` or ``Misaligned``."""
    reference_path = find_side(name, target, directory)
    bitext = read_bitext(reference_path, find_side(name, source, directory))
    tokenised = None
    try:
        path = find_side(f"{name}.{TOKENISED}", target, directory)
    except CorpusError:
        # Few corpora have a tokenised version, and its score is only an addition.
        pass
    else:
        tokenised = tuple(read_lines(path))
        check_aligned(path, tokenised, reference_path, bitext.references)
    return replace(bitext, name=name, source=source, target=target, tokenised_references=tokenised)


def read_bitext(
    reference: Path, source: Path | None = None, languages: tuple[str, str] = ("", "")
) -> Bitext:
    """A test set from files of any name; raises ``CorpusError`` or ``Misaligned``."""
    references = tuple(read_lines(reference))
    if not references:
        raise Misaligned(f"{reference} has no lines; a reference has one for each sentence")
    for number, line in enumerate(references, start=1):
        if not line.strip():
            raise Misaligned(
                f"{reference}, line {number} is empty; nothing can be compared with it: remove "
                "the line from every file, or say what is expected"
            )
    sources = None
    if source is not None:
        sources = tuple(read_lines(source))
        check_aligned(source, sources, reference, references)
    return Bitext(reference.name, *languages, references, sources)


def check_aligned(
    path: Path, lines: Sequence[str], reference: Path, references: Sequence[str]
) -> None:
    """Raises ``Misaligned`` unless both files have the same number of lines."""
    if len(lines) != len(references):
        shorter, longer = (path, reference) if len(lines) < len(references) else (reference, path)
        end = min(len(lines), len(references))
        raise Misaligned(
            f"{shorter} ends after line {end}, and {longer} goes on at line {end + 1} "
            f"({len(lines)} lines in {path}, {len(references)} in {reference}); they must stand "
            "line beside line"
        )
