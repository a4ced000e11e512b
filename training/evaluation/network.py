"""Texts translated by a network in PyTorch, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from models.bundle.tokenizer import Tokenizers
from models.transformer.transformer import Transformer
from training.data.corpus import read_pairs
from training.data.tags import source_prefix
from training.evaluation.bitext import Bitext, find_bitext
from training.recipe import Corpus, Data
from training.search.batched import TOKENS, search_all
from training.search.beam import Hypothesis, Searching


@dataclass(frozen=True, slots=True)
class Reader:
    """Token ids of texts for one direction of a run."""

    tokenizers: Tokenizers
    prefix: tuple[int, ...]
    limit: int
    """Longest source that the network reads, prefix and ``eos`` included."""

    @classmethod
    def of(cls, data: Data, target: str, tokenizers: Tokenizers, limit: int) -> Reader:
        return cls(tokenizers, source_prefix(data, target, tokenizers.source), limit)

    def read(self, texts: Sequence[str]) -> tuple[list[tuple[int, ...]], int]:
        """The ids of every text, and of how many texts these are only the beginning."""
        room = self.limit - len(self.prefix) - 1
        pieces = [self.tokenizers.source.encode(text) for text in texts]
        eos = self.tokenizers.source.special_ids.eos
        cut = sum(len(ids) > room for ids in pieces)
        return [(*self.prefix, *ids[:room], eos) for ids in pieces], cut


def search_texts(
    network: Transformer,
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
    *,
    title: str,
    tokens: int = TOKENS,
) -> list[list[Hypothesis]]:
    """The hypotheses of every source, best first, in the order of the sources; shows a bar."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    hypotheses = search_all(network, sources, searching, network.config.max_length, tokens=tokens)
    with tqdm(total=len(sources), unit="sentence", desc=title, dynamic_ncols=True) as bar:
        for place, of_one in hypotheses:
            found[place] = of_one
            bar.update()
    return found


def bitext_of(corpus: Corpus, data: Data, direction: tuple[str, str], directory: Path) -> Bitext:
    """A recipe's validation or test set in one of its directions."""
    if corpus.generator is None:
        return find_bitext(corpus.name, *direction, directory)
    pairs = list(read_pairs(corpus, data.source, data.target, directory))
    sources, references = tuple(p.source for p in pairs), tuple(p.target for p in pairs)
    if direction != (data.source, data.target):
        sources, references = references, sources
    return Bitext(corpus.name, *direction, references, sources)
