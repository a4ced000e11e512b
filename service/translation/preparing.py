"""Splits marked-up texts into tokenised sentences with decoding options. Blocks; thread-safe.

Sentences that are copied to the translation become parts of the text's separators, with their
markup. A sentence that contains a glossary term is never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.engine.types import DecodingOptions
from service.translation.decoding import DecodingOverrides
from service.translation.figure_agreement import has_figures
from service.translation.glossary.term_index import TermIndex, TermOccurrence
from service.translation.loaded_model import DirectedModel
from service.translation.markup import (
    NO_FRAGMENT,
    PLAIN,
    Fragment,
    MarkedSentence,
    MarkedText,
    Markup,
)
from service.translation.segmentation import Splitting, TokenLimit, segment
from service.translation.text_pool import Check, unchecked
from service.translation.types import Term
from service.translation.verbatim import is_verbatim


@dataclass(frozen=True, slots=True)
class Job:
    """Options for splitting and decoding texts."""

    decoding: DecodingOverrides
    splitting: Splitting
    terms: tuple[Term, ...]
    prefix: str = ""
    """The beginning of the translation of the only text, see ``service.translation.beginning``."""
    markup: Markup = PLAIN

    @property
    def extra_characters(self) -> int:
        """Characters that are processed besides the texts, roughly."""
        constraints = self.decoding.target_prefix, *self.decoding.suppress_sequences
        return sum(map(len, constraints)) + len(self.terms) + len(self.prefix)


@dataclass(frozen=True, slots=True)
class Sentence:
    marked: MarkedSentence
    source_ids: tuple[int, ...]
    """Begins with the direction's prefix and ends with ``eos``."""
    options: DecodingOptions
    occurrences: tuple[TermOccurrence, ...]
    """The glossary terms that occur in it."""
    prefix: str = ""
    """The beginning of the translation that the request forces."""
    alternatives: int = 0
    """Number of tokens after the beginning that are each continued, see ``token_alternatives``; 0
    is a search."""
    beginning: Fragment = NO_FRAGMENT
    """The beginning of the translation that is kept character by character; its text is then
    ``prefix``."""

    @property
    def text(self) -> str:
        return self.marked.text


@dataclass(frozen=True, slots=True)
class Text:
    """A text's sentences and the raw separators around them, one more than sentences."""

    separators: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    lines: tuple[int, ...] = ()
    """The number of the line, or of the part between tags that end sentences, of each sentence."""

    def with_alternatives(self, count: int) -> Text:
        """The text, of whose first sentence ``count`` alternatives are wanted."""
        if not (count and self.sentences):
            return self
        first, *others = self.sentences
        return replace(self, sentences=(replace(first, alternatives=count), *others))


def prepare(
    texts: Sequence[MarkedText],
    directed: DirectedModel,
    job: Job,
    index: TermIndex,
    check: Check = unchecked,
) -> list[Text]:
    """Split and tokenise texts. ``check`` is called before each sentence is tokenised.

    ``index`` is of the job's terms.

    Raises ``InvalidOption``, and ``SentenceTooLong`` for a word longer than the model can read.
    """
    manifest = directed.model.manifest
    most = manifest.limits.source_length
    constraints = job.decoding.constraints(directed.model.tokenizers.target.encode)
    encoded: dict[str, tuple[int, ...]] = {}

    def count(sentence: str) -> int:
        check()
        source_ids = directed.source_ids(sentence)
        if len(source_ids) <= most:
            encoded[sentence] = source_ids
        return len(source_ids)

    limit = TokenLimit(count, most)
    copies = copies_verbatim(directed)

    def copied(sentence: str) -> bool:
        return copies and is_verbatim(sentence) and not index.occur_in(sentence)

    def sentence(marked: MarkedSentence, number: int) -> Sentence:
        source_ids = encoded[marked.text]
        options = job.decoding.resolve(
            manifest.decoding,
            manifest.limits,
            len(source_ids),
            constraints,
            number,
            directed.direction,
            has_figures=has_figures(marked.text),
        )
        occurrences = index.occurrences_in(marked.text)
        prefix = "" if number else job.decoding.target_prefix
        return Sentence(marked, source_ids, options, occurrences, prefix)

    def text(marked: MarkedText) -> Text:
        sentences: list[Sentence] = []
        separators = [marked.between[0]]
        lines: list[int] = []
        for run, after in zip(marked.runs, marked.between[1:], strict=True):
            source = directed.direction.source
            cut = run.cut(segment(run.text, source, limit, job.splitting, copied))
            lines += lines_of(cut.separators, lines)
            for each in cut.sentences:
                sentences.append(sentence(each, len(sentences)))
            first, *others = cut.separators
            separators[-1] += first
            separators += others
            separators[-1] += after
        return Text(tuple(separators), tuple(sentences), tuple(lines))

    return [text(marked) for marked in texts]


def lines_of(separators: Sequence[str], before: Sequence[int]) -> list[int]:
    """The number of the line of each sentence of a run; ``before`` are those of earlier runs."""
    line, lines = (before[-1] + 1 if before else 0), []
    for separator in separators[:-1]:
        line += separator.count("\n")
        lines.append(line)
    return lines


def copies_verbatim(directed: DirectedModel) -> bool:
    """Whether sentences without words are copied."""
    copies = directed.model.manifest.decoding.copy_without_letters
    return not directed.direction.private_use if copies is None else copies
