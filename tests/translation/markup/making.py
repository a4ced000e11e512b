"""Builds marked-up texts, sentence spans and alignments for tests."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from service.text.alignment import Alignment, Span
from service.text.markup import PLAIN, MarkedSentence, Markup, parse
from service.text.words import words
from tests.support.weaving import woven

HTML = Markup("html")
XML = Markup("xml")


def sentences(text: str) -> list[Span]:
    """Spans that end with a full stop or a line break."""
    spans = []
    for found in re.finditer(r"[^.!?\n]+[.!?]*", text):
        if any(character.isalnum() for character in found[0]):
            lead = len(found[0]) - len(found[0].lstrip())
            trail = len(found[0]) - len(found[0].rstrip())
            spans.append((found.start() + lead, found.end() - trail))
    return spans


def aligned(source: str, target: str, links: Iterable[tuple[int, int]]) -> Alignment:
    """Sharp attention along ``links`` of source and target words."""
    source_words, target_words = words(source), words(target)
    weights_TS = np.full((len(target_words), len(source_words)), 0.01, dtype=np.float32)
    for from_word, to_word in links:
        weights_TS[to_word, from_word] = 0.9
    return Alignment(source_words, target_words, weights_TS)


def translated(
    text: str,
    markup: Markup,
    render: Callable[[MarkedSentence], str],
    cut: Callable[[str], list[Span]] = sentences,
) -> str:
    parsed = parse(text, markup)
    runs = []
    for run in parsed.runs:
        parts = run.cut(cut(run.text))
        runs.append(woven(parts.separators, list(map(render, parts.sentences))))
    return woven(parsed.between, runs)


def shouted(text: str, markup: Markup = PLAIN) -> str:
    """Translated to capitals, word by word."""

    def render(sentence: MarkedSentence) -> str:
        target = sentence.text.upper()
        links = ((word, word) for word in range(len(words(target))))
        return sentence.render(target, aligned(sentence.text, target, links))

    return translated(text, markup, render)


def rendered(
    text: str, target: str, links: Iterable[tuple[int, int]], markup: Markup = HTML
) -> str:
    """A text of one sentence, rendered with ``target`` as its translation."""
    return translated(
        text,
        markup,
        lambda sentence: sentence.render(target, aligned(sentence.text, target, links)),
        lambda plain: [(len(plain) - len(plain.lstrip()), len(plain.rstrip()))],
    )


def seen(text: str, markup: Markup = PLAIN) -> list[str]:
    """The model's input for a text, by sentence."""
    return [
        sentence.text
        for run in parse(text, markup).runs
        for sentence in run.cut(sentences(run.text)).sentences
    ]


SCRAPS = ["ab ", "Cd ", "e ", "f, ", ". ", "g", "(", "\n", "-", "é ", "漢", "&", "<", '" ', " "]


class Dice:
    """Random texts, sentence spans and malformed alignments from one seed.

    Hypothesis draws only the seed: texts drawn piece by piece would be too small to find errors.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, most: int = 12) -> str:
        return "".join(self._random.choices(SCRAPS, k=self._random.randint(0, most)))

    def pick(self, options: Sequence[str]) -> str:
        return self._random.choice(options)

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def spans(self, text: str) -> list[Span]:
        """Sentence spans with random borders, in order."""
        inner = [self._random.randint(0, len(text)) for _ in range(self._random.randint(0, 3))]
        borders = sorted({0, len(text), *inner})
        return [span for span in pairwise(borders) if self._random.random() < 0.9]

    def alignment(self, source: str, target: str) -> Alignment | None:
        """Random weights, some invalid; only the shape is right."""
        if self._random.random() < 0.1:
            return None
        step = self._random.choice([1, 1, 1, 2])
        source_words, target_words = words(source)[::step], words(target)
        if self._random.random() < 0.1:
            target_words = target_words[1::2]
        rng = np.random.default_rng(self._random.randint(0, 2**32))
        weights_TS = rng.random((len(target_words), len(source_words))).astype(np.float32)
        weights_TS **= self._random.choice([1, 4, 30])
        if weights_TS.size and self._random.random() < 0.2:
            weird = rng.integers(weights_TS.size, size=3)
            weights_TS.flat[weird] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 9.0], size=3)
        return Alignment(source_words, target_words, weights_TS)


dice = st.integers(0, 2**64).map(Dice)
