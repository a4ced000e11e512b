"""How good the network is in the middle of training: loss, perplexity, BLEU of greedy search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import sacrebleu
import torch

from models.bundle.tokenizer import Tokenizer
from models.transformer.transformer import Transformer
from training.data.batching import Batch, collate, in_batches
from training.data.shards import Shards
from training.objective import negative_log_likelihood
from training.search import default_max_length, greedy

TOKENS_PER_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Validation:
    loss: float
    """Nats per target token, without label smoothing."""
    perplexity: float
    bleu: float
    exact: float
    """Share of sentences translated exactly as the reference."""


@torch.inference_mode()
def validate(
    network: Transformer, shards: Shards, tokenizer: Tokenizer, device: torch.device
) -> Validation:
    network.eval()
    special = tokenizer.special_ids
    nats, tokens = 0.0, 0
    translations: dict[int, str] = {}
    references: dict[int, str] = {}
    for indices, batch in _batches(shards, tokenizer):
        source_BS = batch.source_BS.to(device)
        output_BT = batch.output_BT.to(device)
        logits_BTV = network(source_BS, batch.input_BT.to(device))
        real_BT = output_BT != special.pad
        nats += float(negative_log_likelihood(logits_BTV[real_BT], output_BT[real_BT]))
        tokens += batch.num_target_tokens
        limit = default_max_length(source_BS.size(1), network.config.max_length)
        for index, ids in zip(
            indices, greedy(network, source_BS, special, max_length=limit), strict=True
        ):
            translations[index] = tokenizer.decode(ids)
            references[index] = tokenizer.decode(tuple(shards.target[index].tolist()))
    order = sorted(translations)
    hypotheses = [translations[i] for i in order]
    expected = [references[i] for i in order]
    bleu = sacrebleu.corpus_bleu(hypotheses, [expected]).score
    exact = sum(map(str.__eq__, hypotheses, expected)) / len(order)
    return Validation(nats / tokens, math.exp(nats / tokens), bleu, exact)


def _batches(shards: Shards, tokenizer: Tokenizer) -> Iterator[tuple[list[int], Batch]]:
    lengths = np.maximum(shards.source.lengths, shards.target.lengths)
    for indices in in_batches(np.arange(len(shards)), lengths, TOKENS_PER_BATCH):
        yield indices.tolist(), collate(shards, indices, tokenizer.special_ids)
