"""Splits a marked-up text into runs of translatable text and the markup between them.

Joining the untranslated parts gives the text, to the byte. The caller finds sentences in the plain
text of a run; ``Run.cut`` assigns the marks to them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from service.text.alignment import Span
from service.text.markup import html_tokens, xml_tokens
from service.text.markup.atoms import Atom, atoms, settle
from service.text.markup.marks import Mark
from service.text.markup.placeholders import find
from service.text.markup.sentence import Fragment, MarkedSentence
from service.text.markup.tokens import Decoder, Token, gathered, literal, whole_links
from service.text.markup.types import MOST_MARKS, PLAIN, Markup, TooMuchMarkup

_LINE_BREAK = re.compile(r"(<[bB][rR] ?/?>)")

_LETTER = "x"


@dataclass(frozen=True, slots=True)
class Cut:
    """Sentences and the raw separators around them, one more than there are sentences."""

    separators: tuple[str, ...]
    sentences: tuple[MarkedSentence, ...]


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Runs of text that may contain sentences, and the raw text between them."""

    runs: tuple[Run, ...]
    between: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Text without tags and placeholders that end a sentence.

    ``text`` is the model's input: without tags, placeholders and addresses, and with character
    references resolved.
    """

    text: str
    atoms: tuple[Atom, ...]
    escaped: bool

    def cut(self, spans: Sequence[Span]) -> Cut:
        """Assign the marks to sentences; raises ``TooMuchMarkup``.

        ``spans`` are of ``text``, in order, and neither empty nor overlapping. Marks around whole
        sentences go to the separators. If an element starts in one sentence and ends in another,
        each of them has one of its tags.
        """
        _Cutter.check(spans, len(self.text))
        if len(self.atoms) == 1 and self.atoms[0].raw == self.text:
            return self._cut_plain(spans)
        return self._cut_marked(spans)

    def _cut_plain(self, spans: Sequence[Span]) -> Cut:
        """``_cut_marked`` without marks, for most texts."""
        text = self.text
        places = [0, *chain.from_iterable(spans), len(text)]
        between = zip(places[::2], places[1::2], strict=True)
        sentences = (text[start:end] for start, end in spans)
        return Cut(
            tuple(text[start:end] for start, end in between),
            tuple(MarkedSentence(each, each, (), self.escaped) for each in sentences),
        )

    def _cut_marked(self, spans: Sequence[Span]) -> Cut:
        cutter = _Cutter(self)
        separators = []
        sentences = []
        end_of_last = (0, 0)
        for start, end in spans:
            first, last = cutter.bounds(start, end)
            separators.append(cutter.raw(end_of_last, first))
            sentences.append(
                MarkedSentence(
                    self.text[start:end],
                    cutter.raw(first, last),
                    cutter.marks(first, last, start),
                    self.escaped,
                )
            )
            end_of_last = last
        separators.append(cutter.raw(end_of_last, (len(self.atoms), 0)))
        return Cut(tuple(separators), tuple(sentences))


def parse(text: str, markup: Markup = PLAIN) -> MarkedText:
    """Split a text into runs. Raises ``MalformedMarkup`` for XML that is not well formed."""
    if markup.kind == "text" and text.strip() and not (_LINE_BREAK.search(text) or find(text)):
        return MarkedText((Run(text, (Atom("text", text, text),), False),), ("", ""))
    tokens: Iterable[Token]
    tokens, decode = _tokens(text, markup)
    if markup.kind != "text":
        tokens = whole_links(tokens, decode)
    runs: list[Run] = []
    between: list[str] = []
    outside: list[str] = []
    inside: list[Atom] = []

    def end_run() -> None:
        settled = settle(inside) if any(atom.plain.strip() for atom in inside) else []
        if settled:
            between.append("".join(outside))
            outside.clear()
            plain = "".join(atom.plain for atom in settled)
            runs.append(Run(plain, tuple(settled), markup.kind != "text"))
        else:
            outside.extend(atom.raw for atom in inside)
        inside.clear()

    for token in gathered(tokens):
        if token.breaks:
            end_run()
            outside.append(token.raw)
        else:
            for atom in atoms(token, decode):
                if atom.divides:
                    end_run()
                    outside.append(atom.raw)
                else:
                    inside.append(atom)
    end_run()
    between.append("".join(outside))
    return MarkedText(tuple(runs), tuple(between))


def characters(text: str, markup: Markup) -> int:
    """The characters of a text that a caller is charged for: in markup, those outside of tags.

    A tag is what ``parse`` takes for one, so that no translated character is free. Raises
    ``MalformedMarkup``.
    """
    if markup.kind == "text":
        return len(text)
    tokens, _ = _tokens(text, markup)
    return sum(len(token.raw) for token in tokens if token.kind == "text")


def _tokens(text: str, markup: Markup) -> tuple[Iterator[Token], Decoder]:
    match markup.kind:
        case "text":
            return _lines(text), literal
        case "html":
            return html_tokens.read(text, markup), html_tokens.decode
        case "xml":
            return xml_tokens.read(text, markup), xml_tokens.decode


def fragment(raw: str, markup: Markup) -> Fragment:
    """A given beginning of a sentence, with its markup removed."""
    # A letter after the last tag makes the tag one of a run. An address at the end would take it.
    runs, end = parse(raw + _LETTER, markup).runs, len(_LETTER)
    if not runs or not runs[-1].text.endswith(_LETTER):
        runs, end = parse(raw, markup).runs, 0
    text = "".join(run.text for run in runs)
    marks = [atom.raw for run in runs for atom in run.atoms if atom.kind != "text"]
    return Fragment(raw, text[: len(text) - end], tuple(marks))


def _lines(text: str) -> Iterator[Token]:
    """Tokens of plain text; ``<br>``, which subtitle editors write, is a line break."""
    for number, piece in enumerate(_LINE_BREAK.split(text)):
        if piece:
            yield Token("empty", piece, breaks=True) if number % 2 else Token("text", piece)


Place = tuple[int, int]
"""Index of an atom and character offset in it."""


class _Cutter:
    """Locates sentences in a run's atoms, and pairs start tags with end tags."""

    def __init__(self, run: Run) -> None:
        self._atoms = run.atoms
        self._texts = [number for number, atom in enumerate(run.atoms) if atom.plain]
        self._starts = [run.atoms[number].at for number in self._texts]
        self._partners: dict[int, int] = {}
        opened: list[int] = []
        for number, atom in enumerate(run.atoms):
            if atom.kind == "open":
                opened.append(number)
            elif atom.kind == "close" and opened:
                self._partners[number] = opened.pop()
                self._partners[self._partners[number]] = number

    @staticmethod
    def check(spans: Sequence[Span], length: int) -> None:
        end_of_last = 0
        for start, end in spans:
            if not end_of_last <= start < end <= length:
                raise ValueError(f"sentence {start}:{end} is empty, outside or out of order")
            end_of_last = end

    def bounds(self, start: int, end: int) -> tuple[Place, Place]:
        """Start and end of a sentence, including tags whose partner is inside the sentence."""
        first = self._text_at(start)
        last = self._text_at(end - 1)
        first_offset = start - self._atoms[first].at
        last_offset = end - self._atoms[last].at
        begin, finish = (first, first_offset), (last, last_offset)
        if first_offset == 0:
            number = first - 1
            while number >= 0 and not self._atoms[number].plain:
                if self._atoms[number].kind == "open" and self._within(number, first, last):
                    begin = (number, 0)
                number -= 1
        if last_offset == len(self._atoms[last].plain):
            finish = (last + 1, 0)
            number = last + 1
            while number < len(self._atoms) and not self._atoms[number].plain:
                if self._atoms[number].kind == "close" and self._within(number, first, last):
                    finish = (number + 1, 0)
                number += 1
        return begin, finish

    def marks(self, first: Place, last: Place, start: int) -> tuple[Mark, ...]:
        marks = tuple(
            Mark(atom.kind, atom.raw, atom.at - start, atom.solid, atom.left, atom.right)
            for atom in self._atoms[first[0] : last[0] + (last[1] > 0)]
            if atom.kind != "text"
        )
        if len(marks) > MOST_MARKS:
            raise TooMuchMarkup(len(marks))
        return marks

    def raw(self, first: Place, last: Place) -> str:
        """The raw text from one place to another."""
        parts = []
        for number in range(first[0], last[0] + (last[1] > 0)):
            atom = self._atoms[number]
            start = first[1] if number == first[0] else 0
            end = last[1] if number == last[0] else len(atom.plain)
            if atom.raw == atom.plain:
                parts.append(atom.raw[start:end])
            elif start == 0:
                parts.append(atom.raw)
        return "".join(parts)

    def _text_at(self, offset: int) -> int:
        return self._texts[bisect_right(self._starts, offset) - 1]

    def _within(self, mark: int, first: int, last: int) -> bool:
        """Whether the partner of a tag is between the atoms of a sentence."""
        return first < self._partners.get(mark, -1) < last
