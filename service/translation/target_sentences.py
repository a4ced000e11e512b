"""Finds the part of a given translation that translates each sentence of the source.

Lines are matched by number, and the sentences of a line in order. The last sentence of a line of
the source also gets the further sentences of that line of the translation. Blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.catalogue.loaded_model import DirectedModel
from service.text.faithfulness import ends_sentence, is_verbatim
from service.text.markup import NO_FRAGMENT, Fragment, Markup, fragment, parse
from service.text.segmentation import Splitting, TokenLimit, segment
from service.translation.preparing import Text, copies_verbatim, lines_of

_ANY_LENGTH = TokenLimit(lambda sentence: 0, 0)


@dataclass(frozen=True, slots=True)
class TargetSentence:
    """A span of the translation, and the number of the source sentence that it translates."""

    start: int
    end: int
    source: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a translation, divided at the sentence in which it ends."""

    before: str
    """Text before that sentence."""
    source: int
    """The number of the source sentence."""
    fragment: Fragment
    """The beginning of the translation of that sentence; may be empty."""


def target_sentences(
    translation: str,
    text: Text,
    directed: DirectedModel,
    splitting: Splitting,
    markup: Markup,
) -> list[TargetSentence]:
    """The parts of ``translation``, or of its beginning, that translate sentences of ``text``.

    They are in order, and each has a source sentence of its own.
    """
    if not text.sentences:
        return []
    copies = copies_verbatim(directed)

    def copied(sentence: str) -> bool:
        return copies and is_verbatim(sentence)

    marked = parse(translation, markup)
    language = directed.direction.target
    separators, raws, lines = [marked.between[0]], list[str](), list[int]()
    for run, after in zip(marked.runs, marked.between[1:], strict=True):
        cut = run.cut(segment(run.text, language, _ANY_LENGTH, splitting, copied))
        lines += lines_of(cut.separators, lines)
        raws += [sentence.raw for sentence in cut.sentences]
        first, *others = cut.separators
        separators[-1] += first
        separators += others
        separators[-1] += after
    sources = _sources(lines, text.lines)
    found: list[TargetSentence] = []
    end = 0
    for separator, raw, source in zip(separators[:-1], raws, sources, strict=True):
        start = end + len(separator)
        end = start + len(raw)
        if found and found[-1].source == source:
            start = found.pop().start
        found.append(TargetSentence(start, end, source))
    return found


def divide(
    prefix: str, text: Text, directed: DirectedModel, splitting: Splitting, markup: Markup
) -> Beginning:
    """Divide the beginning of a translation of ``text``, which has sentences.

    ``before`` and the raw fragment are ``prefix``, but for the text that the source has between
    two sentences where ``prefix`` ends in it.
    """
    parts = target_sentences(prefix, text, directed, splitting, markup)
    if not parts:
        return _first(prefix, text, markup)
    last = parts[-1]
    after = prefix[last.end :]
    if last.source + 1 < len(text.sentences):
        separator = text.separators[last.source + 1]
        completed = after.strip() or ends_sentence(prefix[: last.end])
        ended = after and separator.startswith(after) and completed
        if ended or _has_text(after, markup):
            before = prefix[: last.end] + _completed(after, separator)
            return Beginning(before, last.source + 1, NO_FRAGMENT)
    begun = fragment(prefix[last.start :], markup)
    return Beginning(prefix[: last.start], last.source, begun)


def _first(prefix: str, text: Text, markup: Markup) -> Beginning:
    """A beginning without words of its own."""
    before = _completed(prefix, text.separators[0])
    if before != prefix or not prefix.strip():
        return Beginning(before, 0, NO_FRAGMENT)
    start = len(text.separators[0]) if prefix.startswith(text.separators[0]) else 0
    start += len(prefix[start:]) - len(prefix[start:].lstrip())
    return Beginning(prefix[:start], 0, fragment(prefix[start:], markup))


def _has_text(after: str, markup: Markup) -> bool:
    """Whether text after a sentence shows that the sentence has ended."""
    return (markup.kind == "text" and "\n" in after) or bool(fragment(after, markup).text.strip())


def _completed(given: str, separator: str) -> str:
    """The text between two sentences that begins with ``given``."""
    return separator if separator.startswith(given) else given


def _sources(target_lines: Sequence[int], source_lines: Sequence[int]) -> list[int]:
    """The source sentence of each target sentence, given the line of each sentence."""
    if target_lines and target_lines[-1] > source_lines[-1]:
        # Other lines than those of the source: the order has to do.
        target_lines, source_lines = [0] * len(target_lines), [0] * len(source_lines)
    by_line: dict[int, list[int]] = {}
    for number, line in enumerate(source_lines):
        by_line.setdefault(line, []).append(number)
    found: list[int] = []
    ordinal, before = 0, -1
    for line in target_lines:
        ordinal = ordinal + 1 if line == before else 0
        before = line
        of_line = by_line.get(line)
        if of_line is None:
            found.append(found[-1] if found else 0)
        else:
            found.append(of_line[min(ordinal, len(of_line) - 1)])
    return found
