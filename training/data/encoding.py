"""Encodes cleaned text into token shards, in worker processes and resumably.

This process augments, because each random number depends on those before it, and writes. Other
processes look up the pieces, which takes longer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from models.bundle.tokenizer import Tokenizers
from training.data.augmentation import Augmenter
from training.data.clean_text import CleanText, tracked
from training.data.corpus import Pair
from training.data.progress import Progress
from training.data.shards import IdPair, Packed, ShardWriter
from training.data.tags import source_prefix
from training.data.workers import Workers
from training.recipe import Recipe
from training.run_directory import RunDirectory

BLOCK = 10_000
"""Pairs that are encoded at once."""

PAIRS = "pairs"
TOO_LONG = "too many pieces"
UNWRITABLE = "pieces that are never written"

Columns = tuple[list[str], list[str]]
Languages = tuple[str, str]
Block = tuple[Columns, Languages]
"""Pairs of texts as two columns, and the languages of these."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The pairs of a block that are used, in every direction."""

    pairs: list[list[IdPair]]
    counts: dict[str, int]
    """Pairs that are used and that are not, under the names of the report."""


@dataclass(frozen=True, slots=True)
class _PackedBlock:
    packed: Packed
    counts: dict[str, int]


class Encoder:
    """Pairs of texts to pairs of token ids, one per direction, tags included."""

    def __init__(self, recipe: Recipe, tokenizers: Tokenizers, unwritable: Set[int]) -> None:
        """``unwritable`` are ids that the network never writes, and cannot learn to write."""
        self.tokenizers = tokenizers
        self._unwritable = unwritable
        self._max_length = recipe.data.max_length
        data = recipe.data
        self._prefixes = {
            data.languages(corpus): [
                list(source_prefix(data, target, tokenizers.source))
                for _, target in data.directions_of(corpus)
            ]
            for corpus in data.corpora
        }

    def encoded(self, texts: Columns, languages: Languages) -> Encoded:
        """Each pair that is short enough and writable in every direction of its ``languages``."""
        prefixes = self._prefixes[languages]
        sources = self.tokenizers.source.encode_all(texts[0], threads=1)
        targets = self.tokenizers.target.encode_all(texts[1], threads=1)
        longest = self._max_length - len(prefixes[0])
        short = [
            _both_ways(prefixes, source, target)
            for source, target in zip(sources, targets, strict=True)
            if max(len(source), len(target)) <= longest
        ]
        kept = [
            pairs
            for pairs in short
            if all(self._unwritable.isdisjoint(written) for _, written in pairs)
        ]
        counts = {
            PAIRS: len(kept),
            TOO_LONG: len(sources) - len(short),
            UNWRITABLE: len(short) - len(kept),
        }
        return Encoded(kept, counts)

    def __call__(self, block: Block) -> _PackedBlock:
        """The function of the worker processes."""
        found = self.encoded(*block)
        packed = Packed.of(list(itertools.chain.from_iterable(found.pairs)))
        return _PackedBlock(packed, found.counts)


def _both_ways(prefixes: Sequence[list[int]], source: list[int], target: list[int]) -> list[IdPair]:
    sides = ((source, target), (target, source))
    return [
        (prefix + read, written) for prefix, (read, written) in zip(prefixes, sides, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """Position in the text of an epoch, between two steps of the augmentation."""

    corpus: int
    turn: int
    """Number of the pass over the corpus."""
    pair: int
    augmenter: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncodedText:
    """Counts of an epoch."""

    counts: Counter[str]
    """Pairs that are used and that are not, as ``Encoded`` has them."""
    examples: int
    """Pairs of token sequences, of all directions."""
    tokens: tuple[int, ...]
    """Tokens of each side."""
    domains: Counter[str]
    """Tokens by domain."""
    augmented: Counter[str]
    """Changes of each kind."""


def encode_texts(
    recipe: Recipe,
    texts: Sequence[CleanText],
    repeats: Sequence[float],
    encoder: Encoder,
    run: RunDirectory,
    progress: Progress,
    processes: int,
) -> EncodedText:
    """Write the shards of the training text to ``run``, or the part that is missing there."""
    data = recipe.data
    augmenter = Augmenter(data.augmentation, data.source, data.target, recipe.seed)
    state = progress.document.get("encoding", {})
    place = _Place(**state["place"]) if state else None
    counts = Counter[str](state.get("counts", {}))
    domains = Counter[str](state.get("domains", {}))
    with (
        ShardWriter(run.shards("train"), state.get("written")) as train,
        Workers(encoder, processes) as workers,
    ):

        def saved() -> dict[str, Any]:
            assert place is not None, "no block was written"
            return {
                "place": asdict(place),
                "counts": counts,
                "domains": domains,
                "written": train.written(),
            }

        blocks = _blocks(recipe, texts, repeats, augmenter, place)
        for block, place in workers.map(blocks):
            train.append_packed(block.packed)
            counts.update(block.counts)
            domain = texts[place.corpus].corpus.domain
            domains[domain] += sum(len(each) for each in block.packed.tokens)
            progress.save_at_times("encoding", saved)
        if place is not None:
            progress.save("encoding", saved())
        return EncodedText(counts, train.pairs, train.tokens, domains, augmenter.counts)


def _blocks(
    recipe: Recipe,
    texts: Sequence[CleanText],
    repeats: Sequence[float],
    augmenter: Augmenter,
    begin: _Place | None,
) -> Iterator[tuple[Block, _Place]]:
    """Blocks of augmented text after the place ``begin``, each with the place where it ends."""
    for corpus, (text, repeat) in enumerate(zip(texts, repeats, strict=True)):
        languages = recipe.data.languages(text.corpus)
        for turn, pairs in enumerate(text.passes(repeat, recipe.seed)):
            if begin is not None and (corpus, turn) < (begin.corpus, begin.turn):
                continue
            read = _Counted(pairs)
            # Each time through a corpus changes other pairs.
            augmenter.begin(f"{text.corpus.label} {turn}", languages)
            if begin is not None and (corpus, turn) == (begin.corpus, begin.turn):
                read.skip(begin.pair)
                augmenter.resume(begin.augmenter)
            block: list[Pair] = []
            # Pairs of a part of a corpus do not succeed one another.
            documents = text.corpus.documents and turn < int(repeat)
            steps = augmenter.steps(read, documents)
            for made in tracked(steps, f"encoding {text.corpus.label}"):
                block += made
                if len(block) >= BLOCK:
                    here = _Place(corpus, turn, read.count, augmenter.state())
                    yield (Pair.columns(block), languages), here
                    block = []
            if block:
                here = _Place(corpus, turn, read.count, augmenter.state())
                yield (Pair.columns(block), languages), here


class _Counted:
    """Iterator over pairs that counts them."""

    def __init__(self, pairs: Iterator[Pair]) -> None:
        self._pairs = pairs
        self.count = 0

    def __iter__(self) -> Iterator[Pair]:
        return self

    def __next__(self) -> Pair:
        pair = next(self._pairs)
        self.count += 1
        return pair

    def skip(self, count: int) -> None:
        for _ in itertools.islice(self, count):
            pass
