"""Attention maps of a sentence by layer and head, and its word alignment.

L  layers    H  heads    R, C  rows and columns of a map, which are positions
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.catalogue.loaded_model import DirectedModel
from service.runtime.backend import AttentionMaps
from service.text.alignment import Alignment
from service.translation import forced_pass
from service.translation.decoder import ForcedPass
from service.translation.errors import InvalidOption
from service.translation.forced_pass import forced_pass_of, have_words, written_ids

Kind = Literal["encoder", "decoder", "cross"]
Numbers = tuple[int, ...]
Chosen = Numbers | Literal["mean"]
"""Layers or heads, counted from 0 and in order, or the mean over all of them."""

_CHOICE = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")


@dataclass(frozen=True, slots=True)
class MapSelection:
    """Selection of attention maps.

    ``layer`` and ``head`` are numbers from 0, ranges ``0-2``, lists of both ``0,2``, ``all``, or
    ``mean``. ``None`` is the last layer.
    """

    kind: Kind = "cross"
    layer: str | None = None
    head: str = "mean"


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """Selected attention maps of a sentence, with a label for every row and column.

    ``weights_LHRC`` has one layer if ``layers`` is ``mean``, and one head if ``heads`` is ``mean``.
    """

    model: str
    kind: Kind
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    layers: Chosen
    heads: Chosen
    weights_LHRC: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TokenPair:
    """A sentence and its translation as token ids; see ``DirectedModel`` for their shape."""

    directed: DirectedModel
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    caller: str = ""
    """Caller whose turn of the attention thread is used; unknown if empty."""

    @property
    def written(self) -> tuple[int, ...]:
        """The tokens that the decoder reads after ``bos``."""
        return written_ids(self.directed, self.target_ids)

    async def read(self) -> AttentionMaps:
        """All maps, from one run of the model; raises the errors of ``AttentionReader.read``."""
        return await self.directed.model.attention.read(self.source_ids, self.written, self.caller)


async def select_maps(tokens: TokenPair, selection: MapSelection) -> Maps:
    """Selected maps of a sentence; raises ``InvalidOption`` for an unknown layer or head,
    and for decoder maps of a recurrent decoder.

    Prefixes have rows and columns like other tokens. Also raises the errors of
    ``AttentionReader.read``.
    """
    layers, heads = _numbers_of(tokens.directed, selection)
    return _selected(tokens, selection.kind, layers, heads, await tokens.read())


async def select_maps_and_align(
    tokens: TokenPair, selection: MapSelection, source_text: str, target_text: str
) -> tuple[Maps, Alignment]:
    """The results of ``select_maps`` and ``align``, from one run of the model."""
    layers, heads = _numbers_of(tokens.directed, selection)
    maps = await tokens.read()
    selected = _selected(tokens, selection.kind, layers, heads, maps)
    forced = forced_pass_of(tokens.directed.model, maps)
    return selected, _aligned(tokens, forced, source_text, target_text)


def _numbers_of(directed: DirectedModel, selection: MapSelection) -> tuple[Chosen, Chosen]:
    """The selected layers and heads."""
    dimensions = directed.model.manifest.dimensions
    if selection.kind == "decoder" and dimensions.recurrent:
        raise InvalidOption(
            f"{directed.model.name} has no maps of kind decoder: its decoder is recurrent (SSRU); "
            "kind may be cross or encoder"
        )
    of_encoder = selection.kind == "encoder"
    layer_count = dimensions.encoder_layers if of_encoder else dimensions.decoder_layers
    layer = str(layer_count - 1) if selection.layer is None else selection.layer
    return choose("layer", layer, layer_count), choose("head", selection.head, dimensions.heads)


def _selected(
    tokens: TokenPair, kind: Kind, layers: Chosen, heads: Chosen, maps: AttentionMaps
) -> Maps:
    model, written = tokens.directed.model, tokens.written
    tokenizers, special = model.tokenizers, model.manifest.special_ids
    source = tokenizers.source.pieces(tokens.source_ids)
    fed = tokenizers.target.pieces((special.bos, *written))
    predicted = tokenizers.target.pieces((*written, special.eos))
    rows, columns, weights_LHRC = {
        "encoder": (source, source, maps.encoder_LHSS),
        "decoder": (fed, fed, maps.decoder_LHTT),
        "cross": (predicted, source, maps.cross_LHTS),
    }[kind]
    weights_LHRC = _chosen(_chosen(weights_LHRC, layers, 0), heads, 1)
    return Maps(model.name, kind, rows, columns, layers, heads, weights_LHRC)


def choose(what: str, choice: str, count: int) -> Chosen:
    """Parses a selection among ``count`` layers or heads; raises ``InvalidOption``."""
    if choice == "mean":
        return "mean"
    if choice == "all":
        return tuple(range(count))
    if not _CHOICE.fullmatch(choice):
        raise InvalidOption(
            f"{what} must be a number, a range such as 0-2, a list such as 0,2, all or mean"
        )
    numbers: set[int] = set()
    for part in choice.split(","):
        first, _, last = part.partition("-")
        if int(first) > int(last or first):
            raise InvalidOption(f"{what} {part} is an empty range")
        if int(last or first) >= count:
            raise InvalidOption(
                f"{what} {part} does not exist; this model has {count}, counted from 0"
            )
        numbers.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(numbers))


async def align(tokens: TokenPair, source_text: str, target_text: str) -> Alignment:
    """The word alignment of two texts; raises the errors of ``AttentionReader.read``."""
    forced = None
    if have_words(source_text, target_text):
        forced = forced_pass_of(tokens.directed.model, await tokens.read())
    return _aligned(tokens, forced, source_text, target_text)


def _aligned(
    tokens: TokenPair, forced: ForcedPass | None, source_text: str, target_text: str
) -> Alignment:
    return forced_pass.align(
        tokens.directed, forced, tokens.source_ids, tokens.target_ids, source_text, target_text
    )


def _chosen(weights: NDArray[np.float32], chosen: Chosen, axis: int) -> NDArray[np.float32]:
    if chosen == "mean":
        mean: NDArray[np.float32] = weights.mean(axis, keepdims=True)
        return mean
    return weights.take(chosen, axis)


def numbered(chosen: Chosen) -> Sequence[int | str]:
    """A label for each selected layer or head."""
    return ("mean",) if chosen == "mean" else chosen
