"""Batched beam-search translation of texts with a PyTorch network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from models.bundle.tokenizer import Tokenizers
from models.reference.beam import Hypothesis, Searching
from models.transformer.transformer import Transformer
from training.data.corpus import read_pairs
from training.data.tags import source_prefix
from training.evaluation.bitext import Bitext, find_bitext
from training.recipe import Corpus, Data
from training.search.batched import search_all


@dataclass(frozen=True, slots=True)
class Reader:
    """Tokenizes texts for one direction of a run."""

    tokenizers: Tokenizers
    prefix: tuple[int, ...]
    limit: int
    """Maximum source length of the network in tokens, prefix and ``eos`` included."""

    @classmethod
    def of(cls, data: Data, target: str, tokenizers: Tokenizers, limit: int) -> Reader:
        return cls(tokenizers, source_prefix(data, target, tokenizers.source), limit)

    def read(self, texts: Sequence[str]) -> tuple[list[tuple[int, ...]], int]:
        """The ids of every text, and the number of truncated texts."""
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
) -> list[list[Hypothesis]]:
    """The hypotheses of every source, best first, in source order; terminals get a progress bar."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    hypotheses = search_all(network, sources, searching, network.config.max_length)
    with tqdm(
        total=len(sources), unit="sentence", desc=title, dynamic_ncols=True, disable=None
    ) as bar:
        for place, of_one in hypotheses:
            found[place] = of_one
            bar.update()
    return found


def bitext_of(corpus: Corpus, data: Data, direction: tuple[str, str], directory: Path) -> Bitext:
    """A recipe's validation or test set in one direction."""
    if corpus.generator is None:
        return find_bitext(corpus.name, *direction, directory)
    pairs = list(read_pairs(corpus, *data.languages(corpus), directory))
    sources, references = tuple(p.source for p in pairs), tuple(p.target for p in pairs)
    if direction != data.languages(corpus):
        sources, references = references, sources
    return Bitext(corpus.name, *direction, references, sources)
