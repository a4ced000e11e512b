"""Counts translation defects (length, loops, copied sources, unknown pieces); BLEU by length.

Words are those of BLEU's tokenizer for the target language, which makes punctuation marks words
too. A content word is a word with a letter or a digit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from training.evaluation.bitext import Bitext
from training.evaluation.scores import bleu_for

BUCKETS = (5, 10, 15, 20, 25, 30, 40, 50)
"""Longest source, in words, of each bucket except the last."""
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
"""Lower edges of the bars in the histogram of length ratios."""
UNKNOWN = "⁇"
"""SentencePiece's text for the piece ``unk``."""
_LONGEST_LOOP = 4

Words = list[str]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sentences by source length in words; by reference length if the source is unknown."""

    least: int
    most: int | None
    sentences: int
    bleu: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Sentences by hypothesis length divided by reference length, in words."""

    least: float
    below: float | None
    sentences: int


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Numbers of sentences, unless stated otherwise."""

    sentences: int
    length_ratio: float
    """Words of all hypotheses divided by words of all references."""
    too_short: int
    """Shorter than half the reference, and by at least three words."""
    too_long: int
    """Longer than twice the reference, and by at least three words."""
    empty: int
    """Hypotheses that are empty or only whitespace."""
    exact: int
    """Hypotheses equal to the reference, leading and trailing whitespace ignored."""
    loops: int
    """One to four words, at least one a content word, occur three times in succession.

    Sentences whose reference has such a loop are not counted.
    """
    repetitions: int
    """A sequence of four words occurs twice, and no such sequence does in the reference."""
    copied: int | None
    """At least four fifths of the hypothesis's content words occur in the source, and less than
    half of the reference's do; ``None`` if the source is unknown."""
    unknown: int
    """Hypotheses with a piece that is not in the vocabulary."""
    buckets: tuple[Bucket, ...]
    ratios: tuple[Bar, ...]


def diagnose(hypotheses: Sequence[str], bitext: Bitext) -> Diagnostics:
    """Diagnose at least one hypothesis; there are as many hypotheses as references."""
    # BLEU's tokenizer finds no word in texts such as "<skipped>"; they count as one word.
    bleu = bleu_for(bitext.target)
    hypothesis_words = [_words(bleu, text) for text in hypotheses]
    reference_words = [_words(bleu, text) for text in bitext.references]
    sources = None
    if bitext.sources is not None:
        source_bleu = bleu_for(bitext.source)
        sources = [_words(source_bleu, text) for text in bitext.sources]
    pairs = list(zip(hypothesis_words, reference_words, strict=True))
    return Diagnostics(
        sentences=len(pairs),
        length_ratio=sum(map(len, hypothesis_words)) / max(1, sum(map(len, reference_words))),
        too_short=sum(2 * len(a) < len(b) and len(a) + 3 <= len(b) for a, b in pairs),
        too_long=sum(len(a) > 2 * len(b) and len(a) >= len(b) + 3 for a, b in pairs),
        empty=sum(not text.strip() for text in hypotheses),
        exact=sum(
            a.strip() == b.strip() for a, b in zip(hypotheses, bitext.references, strict=True)
        ),
        loops=sum(has_loop(a) and not has_loop(b) for a, b in pairs),
        repetitions=sum(repeats(a) and not repeats(b) for a, b in pairs),
        copied=None
        if sources is None
        else sum(
            is_copied(*each)
            for each in zip(hypothesis_words, reference_words, sources, strict=True)
        ),
        unknown=sum(UNKNOWN in text for text in hypotheses),
        buckets=_buckets(
            [len(words) for words in (reference_words if sources is None else sources)],
            hypotheses,
            bitext.references,
            bitext.target,
        ),
        ratios=_ratios([len(a) / max(1, len(b)) for a, b in pairs]),
    )


def has_loop(words: Words) -> bool:
    """Whether one to four words, one of them a content word, occur three times in succession."""
    for size in range(1, _LONGEST_LOOP + 1):
        for start in range(len(words) - 3 * size + 1):
            first = words[start : start + size]
            again = words[start + size : start + 2 * size]
            third = words[start + 2 * size : start + 3 * size]
            if first == again == third and any(map(_counts, first)):
                return True
    return False


def repeats(words: Words) -> bool:
    """Whether a sequence of four words occurs twice."""
    fours = [tuple(words[start : start + 4]) for start in range(len(words) - 3)]
    return len(set(fours)) < len(fours)


def is_copied(hypothesis: Words, reference: Words, source: Words) -> bool:
    """Whether the hypothesis copies the source; see ``Diagnostics.copied``."""
    return _share_in(hypothesis, source) >= 0.8 and _share_in(reference, source) < 0.5


def _share_in(words: Words, source: Words) -> float:
    """Share of the content words that occur in the source, each at most as often as there."""
    counted = Counter(word.casefold() for word in words if _counts(word))
    if not counted:
        return 0.0
    return (counted & Counter(word.casefold() for word in source)).total() / counted.total()


def _counts(word: str) -> bool:
    return any(map(str.isalnum, word))


def _words(bleu: BLEU, text: str) -> Words:
    words: Words = bleu.tokenizer(text.rstrip()).split()
    return words


def _buckets(
    lengths: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], language: str
) -> tuple[Bucket, ...]:
    found = []
    edges = (0, *BUCKETS)
    for edge, most in zip(edges, (*BUCKETS, None), strict=True):
        here = [
            place
            for place, length in enumerate(lengths)
            # A text without words belongs to the first bucket.
            if (length > edge or edge == 0) and (most is None or length <= most)
        ]
        if here:
            bleu = bleu_for(language).corpus_score(
                [hypotheses[place] for place in here], [[references[place] for place in here]]
            )
            found.append(Bucket(edge + 1, most, len(here), float(bleu.score)))
    return tuple(found)


def _ratios(ratios: Sequence[float]) -> tuple[Bar, ...]:
    return tuple(
        Bar(least, below, sum(least <= r and (below is None or r < below) for r in ratios))
        for least, below in zip(RATIOS, (*RATIOS[1:], None), strict=True)
    )
