"""Sentences, given or random, that prove an import and, with its translations, calibrate it."""

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
from models.importing.refusals import NeedsTexts, UnknownLanguages, UnsupportedCheckpoint
from models.importing.vocabulary import Model, Piece
from models.reference.decoding import greedy_all

PROVED = 48
"""Number of sentences; each takes seconds with a large network."""
GENERATED_PROVED = 8
"""Number of generated sentences that prove a network without texts, each of at most
``LONGEST_PROVED`` pieces."""
LONGEST_PROVED = 10
LEAST_CALIBRATING = 10
"""Least number of sentences for calibration; fewer miss the ranges of most activations."""
CALIBRATING = 400
"""Number of sentences for calibration, over all directions."""
GENERATED = 64
"""Number of generated sentences for calibration, over all directions, each of at most
``LONGEST_GENERATED`` pieces, as measured in docs/log.md."""
LONGEST_GENERATED = 30
LONGEST_TRANSLATED = 30
"""Length limit of translations of generated sentences, in the proof and for calibration: a network
may never end the translation of a text that it does not know."""

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


def generated(
    model: Model, tokenizer: Tokenizer, directions: int, count: int, longest: int
) -> list[list[str]]:
    """``count`` sentences of random directions, each of at most ``longest`` random pieces.

    The piece of rank r, ordered by the scores of ``model``, has the weight 1 / (r + 3). That is
    Zipf's law, since both kinds of models order pieces by frequency: Unigram by probability, BPE by
    merge. The largest activations of such sentences are close to those of real ones (docs/log.md).
    Raises ``UnsupportedCheckpoint`` if no sentence can be drawn.
    """
    ranked = sorted(
        (-piece.score, i) for i, piece in enumerate(model.pieces) if piece.type == Piece.NORMAL
    )
    if not ranked or longest < 1:
        raise UnsupportedCheckpoint(
            f"its SentencePiece model has {len(ranked)} pieces of text, and its network has "
            f"positions for {max(longest, 0)} of them"
        )
    ids = [i for _, i in ranked]
    weights = [1 / (rank + 3) for rank in range(len(ids))]
    rng = random.Random(1)
    found: list[list[str]] = [[] for _ in range(directions)]
    for _ in range(count):
        text = tokenizer.decode(rng.choices(ids, weights, k=rng.randint(1, longest)))
        # Text that another segmentation makes longer is shortened to fit the network.
        while len(tokenizer.encode(text)) > longest:
            text = text[: len(text) // 2]
        found[rng.randrange(directions)].append(text)
    return found


def proving(texts: Sequence[Sequence[str]], *, shown: bool) -> list[Sentence]:
    """Sentences to prove a bundle with; they become examples only if they are ``shown``."""
    with_texts = [i for i, own in enumerate(texts) if own]
    each = max(1, PROVED // len(with_texts))
    return [Sentence(text, i, shown=shown) for i in with_texts for text in texts[i][:each]]


def calibrating(publication: Publication, texts: Sequence[Sequence[str]]) -> list[Pair]:
    """Texts with the network's own greedy translations, of the length that the proof permits."""
    pairs: list[Pair] = []
    each = max(1, CALIBRATING // max(1, sum(map(bool, texts))))
    network = publication.network
    for i, (direction, own) in enumerate(zip(publication.directions, texts, strict=True)):
        sources = [publication.source_ids(Sentence(text, i)) for text in own[:each]]
        prefix, limit = direction.target_prefix, publication.proof_length
        for place, found in greedy_all(network, sources, SPECIAL_IDS, prefix, limit):
            target = (SPECIAL_IDS.bos, *prefix, *found)
            pairs.append((sources[place], target[: network.config.max_length]))
    return pairs
