"""Decoding with the NumPy reference: a decoder for the beam search, and batched greedy search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import SpecialIds
from models.reference.beam import default_max_length
from models.reference.transformer import KeysValues, Past, ReferenceTransformer, log_softmax

ROWS = 32
"""Number of sentences that greedy search decodes together."""


class ReferenceDecoder:
    """A ``models.reference.beam.Decoder`` on the NumPy reference, with a cache."""

    def __init__(self, network: ReferenceTransformer) -> None:
        self._network = network

    def start(self, source_ids: Sequence[int]) -> None:
        network = self._network
        self._source = network.source_keys_values(network.encode(source_ids))
        self._past: list[Past | None] = [None] * network.config.decoder_layers
        self._position = 0

    def extend(
        self, parents: list[int], tokens: list[int], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        past = [None if each is None else each.select(parents) for each in self._past]
        logits_RV, present = self._network.step(
            np.array(tokens), self._position, self._source, past
        )
        self._past = list(present)
        self._position += 1
        log_probs_RV = log_softmax(logits_RV)
        count = min(count, log_probs_RV.shape[1])
        best = np.argpartition(-log_probs_RV, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(log_probs_RV, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)


def greedy_all(
    network: ReferenceTransformer,
    sources: Sequence[Sequence[int]],
    special: SpecialIds,
    prefix: Sequence[int] = (),
    limit: int | None = None,
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each source's index in ``sources`` and its greedy translation; longest sources first.

    Sources end with ``eos``. ``prefix`` is forced after ``bos`` and not part of the translation.
    ``limit`` is the largest length, prefix included, by default the positions of the network.
    """
    limit = network.config.max_length if limit is None else limit
    longest_first = sorted(range(len(sources)), key=lambda place: (-len(sources[place]), place))
    for start in range(0, len(longest_first), ROWS):
        places = longest_first[start : start + ROWS]
        together = [sources[place] for place in places]
        found = _greedy_together(network, together, special, prefix, limit)
        yield from zip(places, found, strict=True)


def _greedy_together(
    network: ReferenceTransformer,
    sources: Sequence[Sequence[int]],
    special: SpecialIds,
    prefix: Sequence[int],
    limit: int,
) -> list[tuple[int, ...]]:
    longest = max(map(len, sources))
    each = [network.source_keys_values(network.encode(source)) for source in sources]

    def padded(keys_HSD: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.pad(keys_HSD, ((0, 0), (0, longest - keys_HSD.shape[1]), (0, 0)))

    layers = range(network.config.decoder_layers)
    source = [
        KeysValues(
            np.stack([padded(own[i].key) for own in each]),
            np.stack([padded(own[i].value) for own in each]),
        )
        for i in layers
    ]
    lengths_R = np.array([len(source_ids) for source_ids in sources])
    visible_R11S = (np.arange(longest) < lengths_R[:, None])[:, None, None]
    past: list[Past | None] = [None for _ in layers]
    tokens_R = np.full(len(sources), special.bos)
    ended_R = np.zeros(len(sources), np.bool_)
    steps: list[NDArray[np.int64]] = []
    for position in range(default_max_length(longest, limit)):
        logits_RV, present = network.step(tokens_R, position, source, past, visible_R11S)
        past = list(present)
        if position < len(prefix):
            tokens_R = np.full(len(sources), prefix[position])
            continue
        logits_RV[:, [special.pad, special.bos]] = -np.inf
        if position == len(prefix):
            logits_RV[:, special.eos] = -np.inf
        tokens_R = np.where(ended_R, special.eos, logits_RV.argmax(axis=1))
        ended_R |= tokens_R == special.eos
        steps.append(tokens_R)
        if ended_R.all():
            break
    rows = np.stack(steps, axis=1).tolist()
    return [tuple(row[: row.index(special.eos)] if special.eos in row else row) for row in rows]
