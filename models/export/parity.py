"""Proves on real sentences that exported graphs compute the same as the NumPy reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from models.bundle.graphs import ENTROPIES
from models.bundle.manifest import Dimensions, Precision, SpecialIds
from models.export.errors import NotFinite, ParityError
from models.export.session import GraphDecoder, open_graph
from models.reference.beam import Decoder, Hypothesis, Searching
from models.reference.transformer import ReferenceTransformer, log_softmax


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest accepted deviation from the network: maximum for fp32, mean for other precisions."""

    score: float
    """Deviation of a score, in nats per token."""
    map: float
    """Deviation of an attention weight."""
    of: Callable[[NDArray[Any]], np.floating[Any]]


TOLERANCES: dict[Precision, Tolerance] = {
    "fp32": Tolerance(score=1e-4, map=1e-4, of=np.max),
    # Trained networks deviate far less; a wrong matrix deviates more.
    "fp16": Tolerance(score=0.02, map=0.005, of=np.mean),
    "int8": Tolerance(score=0.25, map=0.03, of=np.mean),
}

TIE = 1e-5
"""Margin of a step, in nats, below which rounding may decide what the search keeps."""


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


Searched = tuple[list[Hypothesis], float]
"""Hypotheses of a source, and the least margin of a step of its search."""


def require_finite(
    network: ReferenceTransformer, sources: Sequence[tuple[int, ...]], special: SpecialIds
) -> None:
    """Raises ``NotFinite`` if the network overflows in the first step of a translation."""
    for source_ids in sources:
        # The message replaces NumPy's warnings.
        with np.errstate(all="ignore"):
            keys_values = network.source_keys_values(network.encode(source_ids))
            logits_TV = network.decode(keys_values, (special.bos,))
        if not np.isfinite(logits_TV).all():
            raise NotFinite("the network computes logits that are not finite")


def search_all(
    decoder: Decoder,
    name: str,
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
    limit: int,
) -> list[Searched]:
    """Searches every source; ``limit`` is the length limit of a translation."""
    found = []
    for source_ids in tqdm(sources, f"proving {name}", unit="sentence", leave=False, disable=None):
        margins: list[float] = []
        best = searching.best(decoder, source_ids, limit, margins.append)
        found.append((best, min(margins, default=math.inf)))
    return found


def translate_all(
    by_network: Sequence[Searched],
    directory: Path,
    dimensions: Dimensions,
    precisions: Sequence[Precision],
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
    limit: int,
) -> list[Translated]:
    """Translations of every source; one precision after another, since graphs may be large.

    ``by_network`` has what ``search_all`` found with the network, which may be released by now.
    """
    by_graphs: dict[Precision, list[Searched]] = {}
    for precision in precisions:
        decoder = GraphDecoder(directory, dimensions, precision)
        by_graphs[precision] = search_all(decoder, precision, sources, searching, limit)
        del decoder
    return [
        Translated(
            source_ids,
            by_network[i][0],
            {precision: found[i][0] for precision, found in by_graphs.items()},
            searching.target_prefix,
            {precision: found[i][1] for precision, found in by_graphs.items()},
        )
        for i, source_ids in enumerate(sources)
    ]


def tolerance_of(precision: Precision, weights: Precision) -> Tolerance:
    """The tolerance of graphs in one precision that read the weights of another."""
    return max(TOLERANCES[precision], TOLERANCES[weights], key=lambda each: each.score)


def check_translations(
    translated: Sequence[Translated], weights: Mapping[Precision, Precision] | None = None
) -> None:
    """Raises ``ParityError`` unless each precision's scores equal the network's.

    Two hypotheses with equal scores are a tie, which rounding decides; so equal scores are accepted
    as equal tokens. A tie within the search may lead to other scores, so such a sentence is left
    out, but not all of them. ``weights`` are the precisions of the weights, where a precision has
    not its own.
    """
    for precision in translated[0].graphs if translated else ():
        apart = np.array(
            [
                abs(s.graphs[precision][0].score - s.network[0].score)
                for s in translated
                if s.margins.get(precision, math.inf) > TIE
            ]
        )
        if not apart.size:
            raise ParityError(f"{precision}: every search has a tie, so none can be compared")
        tolerance = tolerance_of(precision, (weights or {}).get(precision, precision))
        _require(precision, "scores", apart, tolerance.of, tolerance.score)


def _require(
    precision: Precision,
    what: str,
    apart: NDArray[Any],
    measure: Callable[[NDArray[Any]], np.floating[Any]],
    allowed: float,
) -> None:
    measured = float(measure(apart))
    # This form of the comparison also rejects NaN.
    if not measured <= allowed:
        raise ParityError(
            f"{precision}: {what} differ from the network's by {measured:.2g}; "
            f"at most {allowed:g} is rounding"
        )


@dataclass(frozen=True, slots=True)
class Attended:
    """The network's maps and distributions of one sentence, by the name of a graph's output."""

    source_ids: tuple[int, ...]
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    outputs: dict[str, NDArray[np.float32]]


def attend(
    network: ReferenceTransformer,
    source_ids: tuple[int, ...],
    target_ids: Sequence[int],
    special: SpecialIds,
) -> Attended:
    """``target_ids`` have the decoder's forced prefix, and neither bos nor eos."""
    # A translation of maximum length has no room for bos.
    target = tuple(target_ids[: network.config.max_length - 1])
    input_ids, output_ids = (special.bos, *target), (*target, special.eos)
    logits_TV, maps = network.attention_maps(source_ids, input_ids)
    log_probs_TV = log_softmax(logits_TV)
    outputs = {
        "encoder_attention": np.stack(maps.encoder),
        **({"decoder_attention": np.stack(maps.decoder)} if maps.decoder else {}),
        "cross_attention": np.stack(maps.cross),
        "target_log_probs": log_probs_TV[np.arange(len(output_ids)), output_ids],
        ENTROPIES: -(np.exp(log_probs_TV) * log_probs_TV).sum(-1),
    }
    return Attended(source_ids, input_ids, output_ids, outputs)


def check_attention(
    attended: Sequence[Attended],
    directory: Path,
    special: SpecialIds,
    precision: Precision = "fp32",
    weights: Precision | None = None,
) -> None:
    """Raises ``ParityError`` unless an attention graph has the network's maps and distributions.

    ``weights`` is the precision of its weights, by default its own.

    Sentences of different lengths form one batch, which also proves the padding masks.
    """
    session = open_graph(directory, "attention", precision)
    names = [output.name for output in session.get_outputs()]
    feeds = {
        "source_ids": _padded([each.source_ids for each in attended], special.pad),
        "target_input_ids": _padded([each.input_ids for each in attended], special.pad),
        "target_output_ids": _padded([each.output_ids for each in attended], special.pad),
    }
    found = dict(zip(names, session.run(None, feeds), strict=True))
    tolerance = tolerance_of(precision, weights or precision)
    for name in names:
        differences = []
        for i, each in enumerate(attended):
            values = each.outputs[name]
            # Padding follows the real positions in every dimension.
            real = found[name][i][tuple(map(slice, values.shape))]
            differences.append(np.abs(real - values).ravel())
        allowed = tolerance.map if name.endswith("_attention") else tolerance.score
        _require(precision, name, np.concatenate(differences), tolerance.of, allowed)


def _padded(rows: Sequence[Sequence[int]], pad: int) -> NDArray[np.int32]:
    longest = max(map(len, rows))
    return np.array([[*row, *[pad] * (longest - len(row))] for row in rows], np.int32)
