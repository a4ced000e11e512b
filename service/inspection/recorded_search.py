"""Runs the search of a translated sentence again, and records its tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.catalogue.loaded_model import DirectedModel
from service.engine.search_tree import ROOT, SearchTree
from service.engine.types import Decoded, Origin
from service.translation.types import TranslatedSentence


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    model: str
    source_pieces: tuple[str, ...]
    """The direction's prefix first and ``eos`` last."""
    tree: SearchTree
    pieces: Mapping[int, str]
    """Printable form of each token of the tree."""
    winner: int
    """Id of the candidate that ends the translation, or ``ROOT`` if that is empty."""
    reproduced: bool
    """Whether the translation of ``winner`` is that of the sentence. If not, it is the best."""


async def record_search(
    directed: DirectedModel, sentence: TranslatedSentence, caller: str
) -> RecordedSearch:
    """Decode a sentence again with its own options; raises the errors of ``EngineGroup.decode``.

    The sentence shares the batch of the model's engine with those that are translated. A search
    that ran on a GPU runs on its other engine, which rounds differently, so that it may find
    another translation.
    """
    options = replace(sentence.options, recorded=True)
    origin = Origin(caller=caller)
    decoded = await directed.model.engine.decode(sentence.source_ids, options, origin)
    return await asyncio.to_thread(_read, directed, sentence, decoded)


def _read(
    directed: DirectedModel, sentence: TranslatedSentence, decoded: Decoded
) -> RecordedSearch:
    tree, tokenizers = decoded.tree, directed.model.tokenizers
    assert tree is not None
    token_ids = tuple({each.token for step in tree.steps for each in step})
    eos = directed.model.manifest.special_ids.eos
    written = directed.written(sentence.target_ids)
    leaves = {leaf.id: tree.token_ids(leaf) for leaf in tree.leaves}
    found = [leaf for leaf in tree.leaves if leaves[leaf.id] in (written, (*written, eos))]
    best = max(found or tree.leaves, key=lambda leaf: leaf.score, default=None)
    return RecordedSearch(
        directed.model.name,
        tokenizers.source.pieces(sentence.source_ids),
        tree,
        dict(zip(token_ids, tokenizers.target.pieces(token_ids), strict=True)),
        ROOT if best is None else best.id,
        bool(found) or (best is None and not written),
    )
