"""Proves on real sentences that exported graphs compute what the network does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from models.bundle.manifest import Precision, SpecialIds
from models.transformer.transformer import Transformer
from training.data.batching import padded
from training.export.graphs import dimensions_of
from training.export.session import GraphDecoder, open_graph
from training.search import CachedDecoder, Hypothesis, Searching

SCORE_TOLERANCE = 1e-4
MAP_TOLERANCE = 1e-4
INT8_TOLERANCE = 0.25
"""How far rounded weights may move a score, in nats per token and on average."""
INT8_MAP_TOLERANCE = 0.03
"""How far they may move an attention weight, on average. Trained networks stay far below both."""


class ParityError(Exception):
    """An exported graph does not compute what the network computes."""


@dataclass(frozen=True, slots=True)
class Translated:
    """One sentence as the network and as each precision's graphs translate it, best first."""

    source_ids: tuple[int, ...]
    network: list[Hypothesis]
    graphs: dict[Precision, list[Hypothesis]]


def translate_all(
    network: Transformer,
    directory: Path,
    precisions: Sequence[Precision],
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
) -> list[Translated]:
    dimensions, limit = dimensions_of(network.config), network.config.max_length
    torch_decoder = CachedDecoder(network)
    graph_decoders = {p: GraphDecoder(directory, dimensions, p) for p in precisions}
    return [
        Translated(
            source_ids,
            searching.best(torch_decoder, source_ids, limit),
            {p: searching.best(d, source_ids, limit) for p, d in graph_decoders.items()},
        )
        for source_ids in sources
    ]


def check_translations(translated: Sequence[Translated]) -> None:
    """Raises ``ParityError`` unless fp32 gives the network's own scores, and int8 scores like them.

    Two hypotheses whose scores agree to ``SCORE_TOLERANCE`` are a tie, which rounding decides; so
    equal scores stand for equal tokens.
    """
    for number, sentence in enumerate(translated):
        ours, theirs = sentence.graphs["fp32"][0], sentence.network[0]
        # Written so that NaN fails, too.
        if not abs(ours.score - theirs.score) <= SCORE_TOLERANCE:
            raise ParityError(
                f"sentence {number}: the fp32 graphs give {ours}, the network gives {theirs}"
            )
    moved = [
        abs(sentence.graphs["int8"][0].score - sentence.network[0].score)
        for sentence in translated
        if "int8" in sentence.graphs
    ]
    if moved and not (mean := sum(moved) / len(moved)) <= INT8_TOLERANCE:
        raise ParityError(f"the int8 graphs move the network's scores by {mean:.2g} on average")


def check_attention(
    network: Transformer,
    directory: Path,
    translated: Sequence[Translated],
    special: SpecialIds,
    precision: Precision = "fp32",
) -> None:
    """Raises ``ParityError`` unless an attention graph gives the network's own maps.

    Every number of fp32 has to agree, those of int8 on average.
    Sentences of different lengths go in together, so that padding is proved too.
    """
    sources = [np.array(sentence.source_ids) for sentence in translated]
    # A translation that fills the network's length leaves no place for bos in front of it.
    longest = network.config.max_length - 1
    targets = [
        np.array(sentence.network[0].token_ids[:longest], np.int64) for sentence in translated
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
    found = dict(zip(names, map(torch.from_numpy, session.run(None, feeds)), strict=True))
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
    for name, difference in differences.items():
        apart = difference.abs()
        if precision == "fp32":
            measured, allowed = float(apart.max()), MAP_TOLERANCE
        elif name == "target_log_probs":
            measured, allowed = float(apart.mean()), INT8_TOLERANCE
        else:
            measured, allowed = float(apart.mean()), INT8_MAP_TOLERANCE
        # Written so that NaN fails, too.
        if not measured <= allowed:
            raise ParityError(f"{precision} {name} differs from the network's by {measured:.2g}")
