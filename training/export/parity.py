"""Proves on real sentences that exported graphs compute the same as the PyTorch network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from models.bundle.manifest import Precision, SpecialIds
from models.transformer.transformer import Transformer
from training.data.batching import padded
from training.export.graphs import dimensions_of
from training.export.session import GraphDecoder, open_graph
from training.refusal import Refusal
from training.search.batched import search_all
from training.search.beam import Hypothesis, Searching


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest accepted deviation from the network: maximum for fp32, mean for other precisions."""

    score: float
    """In nats per token."""
    map: float
    """Of attention weights."""
    of: Callable[[Tensor], Tensor]


TOLERANCES: dict[Precision, Tolerance] = {
    "fp32": Tolerance(score=1e-4, map=1e-4, of=torch.max),
    # Trained networks deviate far less; a wrong matrix deviates more.
    "fp16": Tolerance(score=0.02, map=0.005, of=torch.mean),
    "int8": Tolerance(score=0.25, map=0.03, of=torch.mean),
}


class ParityError(Refusal):
    """An exported graph does not compute what the network computes."""


@dataclass(frozen=True, slots=True)
class Translated:
    """One sentence, translated by the network and by each precision's graphs; best first."""

    source_ids: tuple[int, ...]
    network: list[Hypothesis]
    graphs: dict[Precision, list[Hypothesis]]
    target_prefix: tuple[int, ...] = ()
    """The decoder's forced prefix."""
    margins: dict[Precision, float] = field(default_factory=dict)
    """Least margin of a step of each precision's search, see ``margin_of``."""


def translate_all(
    network: Transformer,
    directory: Path,
    precisions: Sequence[Precision],
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
) -> list[Translated]:
    dimensions, limit = dimensions_of(network.config), network.config.max_length
    by_network = dict(search_all(network.eval(), sources, searching, limit))
    decoders = {p: GraphDecoder(directory, dimensions, p) for p in precisions}
    return [
        _translated(source_ids, by_network[i], decoders, searching, limit)
        for i, source_ids in enumerate(tqdm(sources, "proving", unit="sentence", leave=False))
    ]


def tolerance_of(precision: Precision, weights: Precision) -> Tolerance:
    """The tolerance of graphs in one precision that read the weights of another."""
    return max(TOLERANCES[precision], TOLERANCES[weights], key=lambda each: each.score)


def _translated(
    source_ids: tuple[int, ...],
    by_network: list[Hypothesis],
    decoders: Mapping[Precision, GraphDecoder],
    searching: Searching,
    limit: int,
) -> Translated:
    graphs: dict[Precision, list[Hypothesis]] = {}
    margins: dict[Precision, float] = {}
    for precision, decoder in decoders.items():
        found: list[float] = []
        graphs[precision] = searching.best(decoder, source_ids, limit, found.append)
        margins[precision] = min(found, default=math.inf)
    return Translated(source_ids, by_network, graphs, searching.target_prefix, margins)


def check_translations(
    translated: Sequence[Translated], weights: Mapping[Precision, Precision] | None = None
) -> None:
    """Raises ``ParityError`` unless each precision's scores equal the network's.

    Two hypotheses with equal scores are a tie, which rounding decides; so equal scores are accepted
    as equal tokens. ``weights`` are the precisions of the weights, where a precision has not its
    own.
    """
    for precision in translated[0].graphs if translated else ():
        apart = torch.tensor(
            [abs(s.graphs[precision][0].score - s.network[0].score) for s in translated]
        )
        tolerance = tolerance_of(precision, (weights or {}).get(precision, precision))
        _require(precision, "scores", apart, tolerance.of, tolerance.score)


def _require(
    precision: Precision,
    what: str,
    apart: Tensor,
    measure: Callable[[Tensor], Tensor],
    allowed: float,
) -> None:
    measured = float(measure(apart))
    # This form of the comparison also rejects NaN.
    if not measured <= allowed:
        raise ParityError(
            f"{precision}: {what} differ from the network's by {measured:.2g}; "
            f"at most {allowed:g} is rounding"
        )


def check_attention(
    network: Transformer,
    directory: Path,
    translated: Sequence[Translated],
    special: SpecialIds,
    precision: Precision = "fp32",
    weights: Precision | None = None,
) -> None:
    """Raises ``ParityError`` unless an attention graph gives the network's maps.

    ``weights`` is the precision of its weights, by default its own.

    Sentences of different lengths form one batch, which also proves the padding masks.
    """
    sources = [np.array(sentence.source_ids) for sentence in translated]
    # A translation of maximum length has no room for bos.
    longest = network.config.max_length - 1
    targets = [
        np.array((*sentence.target_prefix, *sentence.network[0].token_ids)[:longest], np.int64)
        for sentence in translated
    ]
    source_BS = padded(sources)
    input_BT = padded([np.concatenate(([special.bos], target)) for target in targets])
    output_BT = padded([np.concatenate((target, [special.eos])) for target in targets])
    session = open_graph(directory, "attention", precision)
    names = [output.name for output in session.get_outputs()]
    feeds = {
        "source_ids": source_BS.int().numpy(),
        "target_input_ids": input_BT.int().numpy(),
        "target_output_ids": output_BT.int().numpy(),
    }
    outputs = [torch.from_numpy(output).float() for output in session.run(None, feeds)]
    found = dict(zip(names, outputs, strict=True))
    with torch.inference_mode():
        logits_BTV, maps = network.attention_maps(source_BS, input_BT)
    log_probs_BT = logits_BTV.log_softmax(-1).gather(2, output_BT[..., None])[..., 0]
    real_BT = output_BT != special.pad
    differences = {
        "encoder_attention": found["encoder_attention"] - torch.stack(maps.encoder, 1),
        "decoder_attention": found["decoder_attention"] - torch.stack(maps.decoder, 1),
        "cross_attention": found["cross_attention"] - torch.stack(maps.cross, 1),
        "target_log_probs": (found["target_log_probs"] - log_probs_BT)[real_BT],
    }
    tolerance = tolerance_of(precision, weights or precision)
    for name, difference in differences.items():
        allowed = tolerance.score if name == "target_log_probs" else tolerance.map
        _require(precision, name, difference.abs(), tolerance.of, allowed)
