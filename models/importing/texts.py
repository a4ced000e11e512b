"""Sentences that prove and calibrate an imported network: given texts, or random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.bundle.manifest import Direction
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer
from models.export.calibration import Pair
from models.export.publication import Publication, Sentence
from models.importing.languages import asked_code
from models.importing.refusals import NeedsTexts, UnknownLanguages
from models.reference.decoding import greedy_all

PROVED = 48
"""Number of sentences; each takes seconds with a large network."""
MADE_UP = 8
"""Number of random sentences, used without texts; the network hardly ever ends their translations.
"""
LEAST_CALIBRATING = 10
"""Least number of sentences for calibration; fewer miss the ranges of most activations."""
CALIBRATING = 400
"""Number of sentences for calibration, over all directions."""

LONGEST_TEXT = 10_000
"""Number of lines that are read of a file."""

Texts = Sequence[tuple[str | None, Path]]
"""Files of one sentence per line, each with its language code; ``None`` if not given."""


def texts_by_direction(
    texts: Texts, directions: Sequence[Direction], tokenizer: Tokenizer, limit: int
) -> list[list[str]]:
    """The sentences of each direction that fit the network's length; perhaps none for some.

    Raises ``UnknownLanguages`` for a file without language code if several are possible, and for a
    language that is no source.
    """
    spoken = list(dict.fromkeys(direction.source for direction in directions))
    found: dict[str, list[str]] = {}
    for code, path in texts:
        if code is None and len(spoken) > 1:
            raise UnknownLanguages(
                f"{path} could be of any of {', '.join(spoken)}; say CODE={path.name} which"
            )
        language = spoken[0] if code is None else asked_code(code)
        if language not in spoken:
            raise UnknownLanguages(
                f"{path} is of {language}; the bundle translates from {', '.join(spoken)}"
            )
        longest = limit - 1 - max(len(direction.source_prefix) for direction in directions)
        lines = itertools.islice(_lines(path), LONGEST_TEXT)
        fitting = [line for line in lines if line and len(tokenizer.encode(line)) <= longest]
        if not fitting:
            raise UnknownLanguages(f"{path} has no sentence that the network can read")
        found.setdefault(language, []).extend(fitting)
    return [found.get(direction.source, []) for direction in directions]


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from (line.strip() for line in file)
    except UnicodeDecodeError as error:
        raise NeedsTexts(f"{path} is not a text in UTF-8: {error}") from error
    except OSError as error:
        raise NeedsTexts(f"{path} cannot be read: {error.strerror or error}") from error


def proving(texts: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[Sentence]:
    """Sentences to prove a bundle with; random ones do not become examples."""
    with_texts = [i for i, own in enumerate(texts) if own]
    if with_texts:
        each = max(1, PROVED // len(with_texts))
        return [Sentence(text, i) for i in with_texts for text in texts[i][:each]]
    rng = random.Random(1)
    return [
        Sentence(_made_up(tokenizer, rng), rng.randrange(len(texts)), shown=False)
        for _ in range(MADE_UP)
    ]


def _made_up(tokenizer: Tokenizer, rng: random.Random) -> str:
    ids = [rng.randrange(4, tokenizer.vocabulary_size) for _ in range(rng.randint(2, 10))]
    return tokenizer.decode(ids)


def calibrating(publication: Publication, texts: Sequence[Sequence[str]]) -> list[Pair]:
    """Texts with the network's own greedy translations."""
    pairs: list[Pair] = []
    each = max(1, CALIBRATING // max(1, sum(map(bool, texts))))
    network = publication.network
    for i, (direction, own) in enumerate(zip(publication.directions, texts, strict=True)):
        sources = [publication.source_ids(Sentence(text, i)) for text in own[:each]]
        for place, found in greedy_all(network, sources, SPECIAL_IDS, direction.target_prefix):
            target = (SPECIAL_IDS.bos, *direction.target_prefix, *found)
            pairs.append((sources[place], target[: network.config.max_length]))
    return pairs
