"""Selects example sentences for a report, and marks where a translation differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from training.evaluation.bitext import Bitext
from training.evaluation.scores import sentence_scores

COUNT = 8
"""Number of examples of each kind."""
_WORD = re.compile(r"\w+|[^\w\s]|\s+")


@dataclass(frozen=True, slots=True)
class Output:
    system: str
    text: str
    chrf: float


@dataclass(frozen=True, slots=True)
class Example:
    line: int
    """Line number in the test set, from 1."""
    source: str | None
    reference: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Examples selected for one reason."""

    title: str
    examples: tuple[Example, ...]


def choose(named: Sequence[tuple[str, Sequence[str]]], bitext: Bitext) -> list[Kind]:
    """The best and worst sentences by chrF, and those where a system differs most from the first.

    Among equals, longer references come first, then earlier lines.
    """
    scores = [sentence_scores(hypotheses, bitext.references) for _, hypotheses in named]
    places = range(len(bitext.references))
    means = [sum(each[i] for each in scores) / len(scores) for i in places]
    sizes = [len(reference) for reference in bitext.references]

    def example(i: int) -> Example:
        outputs = tuple(
            Output(name, hypotheses[i], each[i])
            for (name, hypotheses), each in zip(named, scores, strict=True)
        )
        source = None if bitext.sources is None else bitext.sources[i]
        return Example(i + 1, source, bitext.references[i], outputs)

    def kind(title: str, ranked: Sequence[int]) -> Kind:
        return Kind(title, tuple(example(i) for i in ranked[:COUNT]))

    by_all = " by all systems" if len(named) > 1 else ""
    best = sorted(places, key=lambda i: (-means[i], -sizes[i], i))
    worst = sorted(places, key=lambda i: (means[i], -sizes[i], i))
    kinds = [kind(f"Translated best{by_all}", best), kind(f"Translated worst{by_all}", worst)]
    for (name, _), each in list(zip(named, scores, strict=True))[1:]:
        apart = [i for i in places if each[i] != scores[0][i]]
        for better, sign in ((name, -1), (named[0][0], 1)):
            other = named[0][0] if better == name else name
            ranked = sorted(
                (i for i in apart if sign * (each[i] - scores[0][i]) < 0),
                key=lambda i: (sign * (each[i] - scores[0][i]), -sizes[i], i),
            )
            if ranked:
                kinds.append(kind(f"Better by {better} than by {other}", ranked))
    return kinds


def marked(text: str, reference: str) -> list[tuple[str, bool]]:
    """Segments of the text, and whether each is absent from the reference at this place."""
    text_words, reference_words = _WORD.findall(text), _WORD.findall(reference)
    stretches: list[tuple[str, bool]] = []
    matcher = difflib.SequenceMatcher(None, text_words, reference_words, autojunk=False)
    for what, start, end, _, _ in matcher.get_opcodes():
        text = "".join(text_words[start:end])
        if what == "equal":
            stretches.append((text, False))
            continue
        # Whitespace around marked words is not marked.
        word = text.strip()
        before, _, after = text.partition(word) if word else (text, "", "")
        parts = [(before, False), (word, True), (after, False)]
        stretches += [part for part in parts if part[0]]
    return stretches
