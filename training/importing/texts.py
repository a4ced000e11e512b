"""What an imported network is proved and calibrated with: somebody's texts, or made-up ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from models.bundle.manifest import Direction
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer
from training.data.corpus import read_lines
from training.export.calibration import Pair
from training.export.publication import Publication, Sentence
from training.importing.languages import asked_code
from training.importing.refusals import UnknownLanguages
from training.search.batched import search_all
from training.search.beam import Searching

PROVED = 48
"""Sentences; a large network takes seconds for each in PyTorch."""
MADE_UP = 8
"""Sentences, where there are no texts; a network finds no end to what makes no sense."""
CALIBRATING = 400
"""Sentences, of all directions together."""

Texts = Sequence[tuple[str | None, Path]]
"""Files of one sentence per line, each with the code of its language; ``None`` if nobody said."""


def texts_by_direction(
    texts: Texts, directions: Sequence[Direction], tokenizer: Tokenizer, limit: int
) -> list[list[str]]:
    """The sentences of each direction that the network can read whole; of some, perhaps none.

    Raises ``UnknownLanguages`` for a file whose language nobody said and several could be, or
    that is of none of the sources.
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
        lines = (line.strip() for line in read_lines(path))
        fitting = [line for line in lines if line and len(tokenizer.encode(line)) <= longest]
        if not fitting:
            raise UnknownLanguages(f"{path} has no sentence that the network can read")
        found.setdefault(language, []).extend(fitting)
    return [found.get(direction.source, []) for direction in directions]


def proving(texts: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[Sentence]:
    """Sentences to prove a bundle with; made-up ones are not for people to look at."""
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
    """Texts and what the network itself makes of them, greedily."""
    pairs: list[Pair] = []
    each = max(1, CALIBRATING // max(1, sum(map(bool, texts))))
    network = publication.network
    for i, (direction, own) in enumerate(zip(publication.directions, texts, strict=True)):
        sources = [publication.source_ids(Sentence(text, i)) for text in own[:each]]
        searching = Searching(SPECIAL_IDS, 1, 1.0, target_prefix=direction.target_prefix)
        for place, found in search_all(network, sources, searching, network.config.max_length):
            target = (SPECIAL_IDS.bos, *direction.target_prefix, *found[0].token_ids)
            pairs.append((sources[place], target[: network.config.max_length]))
    return pairs
