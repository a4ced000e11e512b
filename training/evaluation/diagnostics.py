"""What a score does not say: too short, too long, in circles, left untranslated.

A word is what BLEU's tokenizer of the target language makes of a text, a mark such as a comma
included; a word that counts has a letter or a digit in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from training.evaluation.bitext import Bitext
from training.evaluation.scores import bleu_for

BUCKETS = (5, 10, 15, 20, 25, 30, 40, 50)
"""Longest source, in words, of each bucket but the last."""
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
"""Where the bars of the distribution of lengths begin."""
UNKNOWN = "⁇"
"""What SentencePiece writes for the piece ``unk``."""
_LONGEST_LOOP = 4

Words = list[str]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sentences whose source has so many words; of the reference, where no source is known."""

    least: int
    most: int | None
    sentences: int
    bleu: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Sentences by words of the hypothesis over words of the reference."""

    least: float
    below: float | None
    sentences: int


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Counts are of sentences unless something else is said."""

    sentences: int
    length_ratio: float
    """All words of the hypotheses over all words of the references."""
    too_short: int
    """Less than half the reference's words, and at least three fewer."""
    too_long: int
    """More than twice the reference's words, and at least three more."""
    empty: int
    """Hypotheses of nothing but blanks."""
    exact: int
    """Hypotheses equal to the reference, blanks at the ends aside."""
    loops: int
    """One to four words stand three times in succession, and the reference has no such place.

    At least one of the words counts.
    """
    repetitions: int
    """Four words in succession stand twice, and the reference has no such four."""
    copied: int | None
    """Of the words that count, at least four fifths stand in the source, and less than half of
    the reference's do; ``None`` where no source is known."""
    unknown: int
    """Hypotheses with a piece that the vocabulary lacks."""
    buckets: tuple[Bucket, ...]
    ratios: tuple[Bar, ...]


def diagnose(hypotheses: Sequence[str], bitext: Bitext) -> Diagnostics:
    """As many hypotheses as references, at least one."""
    # BLEU's tokenizer finds no word at all in such as "<skipped>"; that is taken for one.
    bleu = bleu_for(bitext.target)
    ours = [_words(bleu, text) for text in hypotheses]
    theirs = [_words(bleu, text) for text in bitext.references]
    sources = None
    if bitext.sources is not None:
        source_bleu = bleu_for(bitext.source)
        sources = [_words(source_bleu, text) for text in bitext.sources]
    pairs = list(zip(ours, theirs, strict=True))
    return Diagnostics(
        sentences=len(pairs),
        length_ratio=sum(map(len, ours)) / max(1, sum(map(len, theirs))),
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
        else sum(is_copied(*each) for each in zip(ours, theirs, sources, strict=True)),
        unknown=sum(UNKNOWN in text for text in hypotheses),
        buckets=_buckets(
            [len(words) for words in (theirs if sources is None else sources)],
            hypotheses,
            bitext.references,
            bitext.target,
        ),
        ratios=_ratios([len(a) / max(1, len(b)) for a, b in pairs]),
    )


def has_loop(words: Words) -> bool:
    """Whether one to four words, one of which counts, stand three times in succession."""
    for size in range(1, _LONGEST_LOOP + 1):
        for start in range(len(words) - 3 * size + 1):
            first = words[start : start + size]
            again = words[start + size : start + 2 * size]
            third = words[start + 2 * size : start + 3 * size]
            if first == again == third and any(map(_counts, first)):
                return True
    return False


def repeats(words: Words) -> bool:
    """Whether four words in succession stand twice."""
    fours = [tuple(words[start : start + 4]) for start in range(len(words) - 3)]
    return len(set(fours)) < len(fours)


def is_copied(hypothesis: Words, reference: Words, source: Words) -> bool:
    """Whether the source was written instead of a translation; see ``Diagnostics.copied``."""
    return _share_in(hypothesis, source) >= 0.8 and _share_in(reference, source) < 0.5


def _share_in(words: Words, source: Words) -> float:
    """Of the words that count, the share that stand in the source, each as often at most."""
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
            # What has no word at all is as short as it gets.
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
