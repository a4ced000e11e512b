"""Splits marked-up texts into tokenised sentences with decoding options. Blocks; thread-safe.

Sentences that are copied to the translation become parts of the text's separators, with their
markup. A sentence that contains a glossary term is never copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from service.catalogue.loaded_model import DirectedModel
from service.engine.types import DecodingOptions
from service.text.alignment import Span
from service.text.capitals import begins_with_capital
from service.text.faithfulness import has_figures, is_verbatim
from service.text.glossary.term_index import TermIndex, TermOccurrence
from service.text.markup import NO_FRAGMENT, PLAIN, Fragment, MarkedSentence, MarkedText, Markup
from service.text.memory.memory_index import EXACT, Memory, MemoryMatch
from service.text.segmentation import Splitting, TokenLimit, rejoined, segment
from service.text.types import Term
from service.translation.decoding import DecodingOverrides
from service.translation.text_pool import Check, unchecked
from service.translation.types import TranslateRequest

_TERMS_COUNTED = 4_000
_MEMORY_CHARACTERS = 10_000
"""Characters whose reading takes as long as searching a memory, enough for a thread."""


@dataclass(frozen=True, slots=True)
class Job:
    """Options for splitting and decoding texts."""

    decoding: DecodingOverrides
    splitting: Splitting
    terms: tuple[Term, ...]
    prefix: str = ""
    """The beginning of the translation of the only text, see ``service.translation.beginning``."""
    markup: Markup = PLAIN
    memory: Memory | None = None
    keep_capitals: bool = False

    @classmethod
    def of(cls, request: TranslateRequest, *, last: bool = True) -> Job:
        """The job of a request's last leg, or of the leg before it."""
        if last:
            return cls(
                request.decoding,
                request.splitting,
                request.terms,
                request.prefix,
                request.markup,
                request.memory,
                request.keep_capitals,
            )
        # Prefix, lengths and number of hypotheses apply to the last leg only.
        asked = request.decoding
        decoding = DecodingOverrides(beam_size=asked.beam_size, keep_figures=asked.keep_figures)
        return cls(decoding, request.splitting, (), keep_capitals=request.keep_capitals)

    @property
    def extra_characters(self) -> int:
        """Characters that are processed besides the texts, roughly."""
        constraints = self.decoding.target_prefix or "", *(self.decoding.suppress_sequences or ())
        # Terms that begin with others are found one after the other. Of a large glossary, so many
        # terms suffice for a thread.
        terms = sum(1 + len(term.source) for term in islice(self.terms, _TERMS_COUNTED))
        # A search in a memory takes a millisecond.
        memory = _MEMORY_CHARACTERS if self.memory is not None else 0
        return sum(map(len, constraints)) + terms + len(self.prefix) + memory


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
    match: MemoryMatch | None = None
    """The most similar unit of the memory."""
    capital: bool = False
    """Whether its translation has to begin with a capital letter."""

    @property
    def text(self) -> str:
        return self.marked.text

    @property
    def needs_alignment(self) -> bool:
        """Whether glossary terms or markup are placed in its translation by word alignment, or a
        unit of a memory is adapted by it."""
        return bool(self.marked.marked or self.occurrences or self.adaptable)

    @property
    def adaptable(self) -> bool:
        """Whether a similar unit of a memory is adapted to it. Tags and terms would be lost."""
        return self.match is not None and not (self.marked.marked or self.occurrences)


@dataclass(frozen=True, slots=True)
class Text:
    """A text's sentences and the raw separators around them, one more than sentences.

    Separators are those of the translation, see ``service.text.segmentation.rejoined``.
    """

    separators: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    lines: tuple[int, ...] = ()
    """The number of the line, or of the part between tags that end sentences, of each sentence."""
    exact: tuple[MemoryMatch, ...] = ()
    """Units of the memory whose translations are parts of separators."""

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
    index: TermIndex | None = None,
    check: Check = unchecked,
) -> list[Text]:
    """Split and tokenise texts. ``check`` is called before each sentence is tokenised.

    ``index`` is of the job's terms, if it has any.

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
    memory = job.memory if job.memory is not None and job.memory.pair == directed.pair else None

    def copied(sentence: str) -> bool:
        return (
            copies
            and is_verbatim(sentence)
            and not (index is not None and index.occur_in(sentence))
            and not (memory is not None and memory.index.exact(sentence))
        )

    def exact_of(marked: MarkedSentence) -> MemoryMatch | None:
        """The unit whose translation is taken as it is stored: without tags and terms."""
        if memory is None or (marked.escaped and marked.marked):
            return None
        found = memory.index.exact(marked.text if marked.escaped else marked.raw)
        has_terms = found is not None and index is not None and index.occur_in(marked.text)
        return None if has_terms else found

    resolved: dict[tuple[int, int, bool], DecodingOptions] = {}

    def options_of(tokens: int, number: int, figures: bool) -> DecodingOptions:
        # Only the first sentence has a prefix, and each draws numbers of its own.
        key = tokens, number if job.decoding.samples else min(number, 1), figures
        if key not in resolved:
            resolved[key] = job.decoding.resolve(
                manifest.decoding,
                manifest.limits,
                tokens,
                constraints,
                number,
                directed.direction,
                has_figures=figures,
            )
        return resolved[key]

    matches: dict[str, MemoryMatch | None] = {}

    def match_of(sentence: str) -> MemoryMatch | None:
        if memory is not None and sentence not in matches:
            matches[sentence] = memory.index.best(sentence, memory.threshold, check)
        return matches.get(sentence)

    # Equal sentences are one object, which is decoded and written once.
    known: dict[tuple[MarkedSentence, int, bool], Sentence] = {}

    def sentence(marked: MarkedSentence, number: int, before: str) -> Sentence:
        # A placeholder before a sentence belongs to no sentence, but is read with it.
        capital = job.keep_capitals and begins_with_capital(before + marked.raw)
        key = marked, number if job.decoding.samples else min(number, 1), capital
        if key not in known:
            known[key] = made(marked, number, capital=capital)
        return known[key]

    def made(marked: MarkedSentence, number: int, *, capital: bool) -> Sentence:
        source_ids = encoded[marked.text]
        options = options_of(len(source_ids), number, has_figures(marked.text))
        occurrences = () if index is None else index.occurrences_in(marked.text)
        prefix = "" if number else job.decoding.target_prefix or ""
        match = match_of(marked.text)
        if match is not None and match.score == EXACT:
            # The stored translation has no tags.
            match = replace(match, use="none")
        return Sentence(
            marked, source_ids, options, occurrences, prefix, match=match, capital=capital
        )

    def text(marked: MarkedText) -> Text:
        sentences: list[Sentence] = []
        separators = [marked.between[0]]
        lines: list[int] = []
        exact: list[MemoryMatch] = []
        for run, after in zip(marked.runs, marked.between[1:], strict=True):
            source = directed.direction.source
            spans: Sequence[Span] = segment(run.text, source, limit, job.splitting, copied)
            cut = run.cut(spans)
            if memory is not None and len(spans) > 1 and memory.index.exact(run.text):
                whole = run.cut([_visible(run.text)])
                cut = cut if whole.sentences[0].marked else whole
            first, *others = rejoined(cut.separators, source, directed.direction.target)
            separators[-1] += first
            for each, before, separator, line in zip(
                cut.sentences,
                cut.separators[:-1],
                others,
                lines_of(cut.separators, lines),
                strict=True,
            ):
                if (match := exact_of(each)) is not None:
                    exact.append(match)
                    target = match.unit.target
                    separators[-1] += each.render(target, None) if each.escaped else target
                    separators[-1] += separator
                else:
                    sentences.append(sentence(each, len(sentences), before))
                    separators.append(separator)
                    lines.append(line)
            separators[-1] += after
        return Text(tuple(separators), tuple(sentences), tuple(lines), tuple(exact))

    return [text(marked) for marked in texts]


def _visible(text: str) -> Span:
    """The text without blanks around it."""
    return len(text) - len(text.lstrip()), len(text.rstrip())


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


def work_of(
    texts: Sequence[Text], route: Sequence[DirectedModel], request: TranslateRequest
) -> int:
    """Work in source tokens over all legs, assuming the same sentence lengths in each."""
    jobs = [
        (directed.model.manifest, Job.of(request, last=directed is route[-1]).decoding)
        for directed in route
    ]
    lengths = Counter(
        (len(sentence.source_ids), bool(number), sentence.adaptable)
        for text in texts
        for number, sentence in enumerate(text.sentences)
    )
    total = 0
    for (length, later, adaptable), count in lengths.items():
        work = sum(
            (1 if later else 1 + decoding.token_alternatives)
            * decoding.work(manifest.decoding, manifest.limits, length)
            for manifest, decoding in jobs
        )
        # The graph that scores and aligns reads a sentence once.
        total += count * (work + length * (request.confidence + 2 * adaptable))
    return total
