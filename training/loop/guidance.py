"""Guided alignment: one head of attention learns word alignments (Chen et al., 2016, "Guided
Alignment Training for Topic-Aware Neural Machine Translation", section 3).

The alignments are those of IBM Model 1, whose posteriors follow from its table alone. The head is
the first one of the last decoder layer, as in Marian.

    N  target tokens     S  source positions     E  entries of the table
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from training.disk import writing
from training.loop.distributed import World
from training.recipe import InvalidRecipe
from training.run_directory import RunDirectory
from training.shortlist.lexicon import Lexicon, kept_lexicon, lexicon_of

logger = logging.getLogger(__name__)

LEAST_PROBABILITY = 1e-3
"""Rarer translations align nothing."""
_LEAST_WEIGHT = 1e-9


class Guide:
    """A lexical translation table on a device."""

    def __init__(self, lexicon: Lexicon, vocabulary_size: int, device: torch.device) -> None:
        """Raises ``InvalidRecipe`` for a table without a translation that is likely enough."""
        kept_E = lexicon.probabilities_E >= LEAST_PROBABILITY
        if not kept_E.any():
            raise InvalidRecipe(
                "there is too little text to learn alignments from: set guided_alignment to 0"
            )
        keys_E = (lexicon.source_ids_E * vocabulary_size + lexicon.target_ids_E)[kept_E]
        self._vocabulary_size = vocabulary_size
        self._keys_E = torch.from_numpy(keys_E).to(device)
        self._probabilities_E = torch.from_numpy(lexicon.probabilities_E[kept_E]).float().to(device)

    def posteriors(self, sources_NS: Tensor, targets_N: Tensor) -> Tensor:
        """p(position | target token, source), ``[N, S]``; zeros where the table has no link."""
        wanted_NS = sources_NS.long() * self._vocabulary_size + targets_N[:, None]
        last = len(self._keys_E) - 1
        places_NS = torch.searchsorted(self._keys_E, wanted_NS).clamp(max=last)
        known_NS = self._keys_E[places_NS] == wanted_NS
        likelihoods_NS = self._probabilities_E[places_NS] * known_NS
        evidence_N1 = likelihoods_NS.sum(dim=1, keepdim=True)
        return likelihoods_NS / evidence_N1.clamp(min=LEAST_PROBABILITY)

    def loss(self, weights_NS: Tensor, sources_NS: Tensor, targets_N: Tensor) -> Tensor:
        """Sum over N of the cross-entropies of ``posteriors`` and the head's weights, in nats."""
        surprise_NS = -weights_NS.float().clamp(min=_LEAST_WEIGHT).log()
        return (self.posteriors(sources_NS, targets_N) * surprise_NS).sum()


def guide_of(run: RunDirectory, device: torch.device, world: World) -> Guide:
    """The guide of a prepared run. The first process learns the table once, others wait for it."""
    path = kept_lexicon(run)
    if world.first and not path.exists():
        logger.info("learning word alignments")
        lexicon = lexicon_of(run)
        with writing(run.path):
            lexicon.save(path)
    world.broadcast(None)
    return Guide(Lexicon.load(path), run.tokenizers().target.vocabulary_size, device)
