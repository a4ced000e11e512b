"""Workloads of engine benchmarks: batches of token ids, ``eos`` included, the same at every call.

Batches are translated one after the other. Workloads with small batches have several of them, so
that their duration is measurable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.base import FIRST_WORD
from models.bundle.bundle import Bundle
from training.data.corpus import find_side, read_lines

Sentences = tuple[tuple[int, ...], ...]

SEED = 5
FIXED_TOKENS = 25
NEWSTEST_SENTENCES = _CAPTIONS = 64
_MEAN, _DEVIATION, _SHORTEST, _LONGEST = 27, 14, 4, 100


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    batches: tuple[Sentences, ...]


NAMES = ("fixed-1", "fixed-8", "fixed-32", "fixed-64", "newstest", "newstest2014", "multi30k")
"""All but the last are random words for the base bundle; the last two need data."""


def workload(name: str, bundle: Bundle, data: Path) -> Workload:
    """One of ``NAMES``; raises ``CorpusError`` if it needs data that are not there."""
    match name.split("-"):
        case ["fixed", sentences]:
            return fixed(bundle, int(sentences))
        case ["newstest"]:
            return newstest_like(bundle)
        case ["newstest2014"]:
            return newstest2014(bundle, data)
        case ["multi30k"]:
            return multi30k(bundle, data)
        case _:
            raise ValueError(f"there is no workload {name}; known are {', '.join(NAMES)}")


def fixed(bundle: Bundle, sentences: int) -> Workload:
    """Batches of ``sentences`` random sentences of 25 tokens each."""
    batches = 6 if sentences < 4 else 3 if sentences < 16 else 1
    words = random_words(bundle, [FIXED_TOKENS] * sentences * batches)
    return Workload(f"fixed-{sentences}", _in_batches(words, sentences))


def newstest_like(bundle: Bundle) -> Workload:
    """One batch of 64 random sentences, as long as those of a news test set: 27 ± 14 tokens."""
    return Workload("newstest", (random_words(bundle, newstest_lengths(NEWSTEST_SENTENCES)),))


def newstest2014(bundle: Bundle, data: Path) -> Workload:
    """One batch of 64 random sentences with lengths of newstest2014, in words and marks.

    Raises ``CorpusError`` if the data are not there.
    """
    lines = list(read_lines(find_side("wmt-news/test", "en", data)))
    chosen = np.random.default_rng(SEED).choice(len(lines), NEWSTEST_SENTENCES, replace=False)
    lengths = [len(re.findall(r"\w+|[^\w\s]", lines[i])) + 1 for i in chosen]
    return Workload("newstest2014", (random_words(bundle, np.clip(lengths, 2, _LONGEST)),))


def multi30k(bundle: Bundle, data: Path) -> Workload:
    """One batch of the first captions of the test set of 2016, read by the bundle's tokenizer.

    Raises ``CorpusError`` if the data are not there.
    """
    return Workload("multi30k", (captions(bundle, data)[:_CAPTIONS],))


def captions(bundle: Bundle, data: Path) -> Sentences:
    """Multi30k's test set of 2016; raises ``CorpusError`` if it is not there."""
    path = find_side("multi30k/test_2016_flickr", bundle.manifest.directions[0].source, data)
    return tuple(map(reader(bundle), read_lines(path)))


def reader(bundle: Bundle) -> Callable[[str], tuple[int, ...]]:
    """Tokenizer of the bundle's first direction: the network's input for a text."""
    tokenizer, eos = bundle.tokenizers().source, bundle.manifest.special_ids.eos
    direction = bundle.manifest.directions[0]
    return lambda text: direction.source_ids(tokenizer.encode(text), eos)


def languages(bundle: Bundle) -> dict[str, str]:
    """Language fields of a request in the bundle's first direction."""
    direction = bundle.manifest.directions[0]
    return {"source": direction.source, "target": direction.target}


def texts_of(bundle: Bundle, sentences: Sentences) -> list[str]:
    """Texts of tokenized sentences; tags leave no trace in them."""
    tokenizer = bundle.tokenizers().source
    return [tokenizer.decode(sentence[:-1]) for sentence in sentences]


def newstest_lengths(sentences: int) -> list[int]:
    """Tokens of sentences, ``eos`` counted: gamma-distributed, cut to 4 … 100."""
    shape = (_MEAN / _DEVIATION) ** 2
    lengths = np.random.default_rng(SEED).gamma(shape, _MEAN / shape, sentences)
    return [int(length) for length in np.clip(np.round(lengths), _SHORTEST, _LONGEST)]


def random_words(bundle: Bundle, lengths: Iterable[int]) -> Sentences:
    """Sentences of random token ids, none of them special, each with ``eos`` at the end."""
    manifest = bundle.manifest
    random = np.random.default_rng(SEED)
    return tuple(
        (
            *random.integers(
                FIRST_WORD, manifest.dimensions.source_vocabulary, length - 1
            ).tolist(),
            manifest.special_ids.eos,
        )
        for length in lengths
    )


def _in_batches(sentences: Sentences, size: int) -> tuple[Sentences, ...]:
    return tuple(sentences[start : start + size] for start in range(0, len(sentences), size))
