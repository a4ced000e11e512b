"""Finds the part of a given translation that translates each sentence of the source.

Lines are matched by number, and the sentences of a line in order. The last sentence of a line of
the source also gets the further sentences of that line of the translation. Blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.translation.loaded_model import DirectedModel
from service.translation.preparing import Text, copies_verbatim
from service.translation.segmentation import Splitting, TokenLimit, segment
from service.translation.verbatim import is_verbatim

_ANY_LENGTH = TokenLimit(lambda sentence: 0, 0)


@dataclass(frozen=True, slots=True)
class TargetSentence:
    """A span of the translation, and the number of the source sentence that it translates."""

    start: int
    end: int
    source: int


def target_sentences(
    translation: str, text: Text, directed: DirectedModel, splitting: Splitting
) -> list[TargetSentence]:
    """The parts of ``translation``, or of its beginning, that translate sentences of ``text``.

    They are in order, and each has a source sentence of its own.
    """
    if not text.sentences:
        return []
    copies = copies_verbatim(directed)

    def copied(sentence: str) -> bool:
        return copies and is_verbatim(sentence)

    language = directed.direction.target
    segmented = segment(translation, language, _ANY_LENGTH, splitting, copied)
    sources = _sources(_lines(segmented.separators), _lines(text.separators))
    found: list[TargetSentence] = []
    for (start, end), source in zip(segmented.spans, sources, strict=True):
        if found and found[-1].source == source:
            start = found.pop().start
        found.append(TargetSentence(start, end, source))
    return found


def _sources(target_lines: Sequence[int], source_lines: Sequence[int]) -> list[int]:
    """The source sentence of each target sentence, given the line of each sentence."""
    if target_lines and target_lines[-1] > source_lines[-1]:
        # Other lines than those of the source: the order has to do.
        target_lines, source_lines = [0] * len(target_lines), [0] * len(source_lines)
    by_line: dict[int, list[int]] = {}
    for number, line in enumerate(source_lines):
        by_line.setdefault(line, []).append(number)
    found: list[int] = []
    for number, line in enumerate(target_lines):
        of_line = by_line.get(line)
        if of_line is None:
            found.append(found[-1] if found else 0)
        else:
            found.append(of_line[min(number - target_lines.index(line), len(of_line) - 1)])
    return found


def _lines(separators: Sequence[str]) -> list[int]:
    """The number of the line in which each sentence begins, from the text around sentences."""
    lines, line = [], 0
    for separator in separators[:-1]:
        line += separator.count("\n")
        lines.append(line)
    return lines
