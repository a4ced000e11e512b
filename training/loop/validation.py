"""Validation during training: loss, perplexity, and BLEU, chrF and samples of greedy search."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass, fields

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from models.bundle.tokenizer import Tokenizers
from models.reference.beam import default_max_length
from models.transformer.transformer import Transformer
from training.data.batching import Indices, collate, in_batches
from training.data.shards import Shards
from training.evaluation.scores import bleu_for
from training.loop.distributed import World
from training.loop.learner import Diverged
from training.loop.objective import negative_log_likelihood
from training.recipe import Data, Metric
from training.run_directory import RunDirectory, validated_splits
from training.search.greedy import greedy

TOKENS_PER_BATCH = 4096
SAMPLES = 3
"""Translations of each direction that are shown, always of the same sentences."""

_MOST_NATS = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Sample:
    direction: str
    source: str
    translation: str
    reference: str

    def __str__(self) -> str:
        return f"{self.direction}: {self.source} → {self.translation} (reference: {self.reference})"


@dataclass(frozen=True, slots=True)
class Validation:
    loss: float
    """Nats per target token, without label smoothing."""
    perplexity: float
    bleu: float
    chrf: float
    exact: float
    """Share of translations that equal the reference."""
    samples: tuple[Sample, ...] = ()

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.3f}, perplexity {self.perplexity:.2f}, BLEU {self.bleu:.1f}, "
            f"chrF {self.chrf:.1f}, {self.exact:.1%} equal the reference"
        )

    @property
    def scores(self) -> dict[str, float]:
        """Every number by its name."""
        names = (each.name for each in fields(self) if each.name != "samples")
        return {name: getattr(self, name) for name in names}

    def judged_by(self, metric: Metric) -> float:
        """The value of a metric, such that more is better."""
        value: float = getattr(self, metric)
        return -value if metric == "loss" else value


class Validator:
    """Evaluates a run's validation set, with BLEU per direction, as BLEU needs one language."""

    def __init__(
        self,
        run: RunDirectory,
        data: Data,
        tokenizers: Tokenizers,
        device: torch.device,
        world: World | None = None,
    ) -> None:
        """Raises ``UnknownTokenisation`` if BLEU has no word
        tokenisation for a target language."""
        self._sets = {
            name: [
                (f"{source}-{target}", Shards.open(path), bleu_for(target))
                for (source, target), path in run.shards_of(split, corpus, data).items()
            ]
            for name, (split, corpus) in validated_splits(data).items()
        }
        self._tokenizers = tokenizers
        self._device = device
        self._world = World() if world is None else world

    @property
    def others(self) -> list[str]:
        """Names of the sets beside ``Data.valid``."""
        return [name for name in self._sets if name is not None]

    def validate(self, network: Transformer, corpus: str | None = None) -> Validation | None:
        """Results on the validation set, or on another one by its name.

        BLEU and chrF are means over directions; the other metrics are over all sentences. All
        processes validate together, each a part of the batches; the first one returns the results,
        the others ``None``.

        Raises ``Diverged`` if loss or perplexity is not finite.
        """
        network.eval()
        of_direction = [self._of(network, *each) for each in self._sets[corpus]]
        parts = [part for part in of_direction if part is not None]
        if not parts:
            return None
        loss = sum(part.nats for part in parts) / sum(part.tokens for part in parts)
        if not loss < _MOST_NATS:
            raise Diverged(
                f"the loss of the validation set is {loss:g} nats per token; lower the learning "
                "rate. The last checkpoint is untouched"
            )
        return Validation(
            loss,
            math.exp(loss),
            sum(part.bleu for part in parts) / len(parts),
            sum(part.chrf for part in parts) / len(parts),
            sum(part.exact for part in parts) / sum(part.sentences for part in parts),
            tuple(sample for part in parts for sample in part.samples),
        )

    def _of(self, network: Transformer, direction: str, shards: Shards, bleu: BLEU) -> _Part | None:
        tokenizer = self._tokenizers.target
        batches = _batches(shards)
        own = batches[self._world.rank :: self._world.size]
        by_process = self._world.gathered([self._measured(network, shards, each) for each in own])
        if not self._world.first:
            return None
        # The order is that of one process, so that the sums are equal to the last bit.
        in_turn = (each for turn in itertools.zip_longest(*by_process) for each in turn)
        measured = [each for each in in_turn if each is not None]
        translations: dict[int, str] = {}
        for indices, batch in zip(batches, measured, strict=True):
            decoded = map(tokenizer.decode, batch.translations)
            translations.update(zip(indices.tolist(), decoded, strict=True))
        order = sorted(translations)
        hypotheses = [translations[i] for i in order]
        expected = [tokenizer.decode(tuple(shards.target[i].tolist())) for i in order]
        return _Part(
            sum(batch.nats for batch in measured),
            sum(batch.tokens for batch in measured),
            len(order),
            bleu.corpus_score(hypotheses, [expected]).score,
            CHRF().corpus_score(hypotheses, [expected]).score,
            sum(map(str.__eq__, hypotheses, expected)),
            [
                Sample(
                    direction,
                    self._tokenizers.source.decode(tuple(shards.source[i].tolist())),
                    hypotheses[i],
                    expected[i],
                )
                for i in order[:: -(-len(order) // SAMPLES)]
            ],
        )

    @torch.inference_mode()
    def _measured(self, network: Transformer, shards: Shards, indices: Indices) -> _Measured:
        special = self._tokenizers.target.special_ids
        batch = collate(shards, indices, special)
        source_BS = batch.source_BS.to(self._device)
        output_BT = batch.output_BT.to(self._device)
        logits_BTV = network(source_BS, batch.input_BT.to(self._device))
        real_BT = output_BT != special.pad
        nats = float(negative_log_likelihood(logits_BTV[real_BT], output_BT[real_BT]))
        limit = default_max_length(source_BS.size(1), network.config.max_length)
        translations = greedy(network, source_BS, special, max_length=limit)
        return _Measured(nats, batch.num_target_tokens, translations)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Sums and translations of one batch."""

    nats: float
    tokens: int
    translations: list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Part:
    """Sums of one direction."""

    nats: float
    tokens: int
    sentences: int
    bleu: float
    chrf: float
    exact: int
    samples: list[Sample]


def _batches(shards: Shards) -> list[Indices]:
    lengths = np.maximum(shards.source.lengths, shards.target.lengths)
    return in_batches(np.arange(len(shards)), lengths, TOKENS_PER_BATCH)
