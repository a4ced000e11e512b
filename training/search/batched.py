"""Batched beam search in PyTorch on any device; equivalent to ``models.reference.beam``.

The network runs over all rows of all sentences. Only the best candidates are copied from the
device; NumPy selects among them. Finished sentences are removed from the batch.

Shapes: B sentences, W rows of each, C candidates of each, V pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.reference.beam import Hypothesis, Searching, default_max_length, norm_of
from models.transformer.transformer import Cache, Transformer

TOKENS = 8192
"""Default batch size: padded source tokens times the beam size."""


def search_all(
    network: Transformer,
    sources: Sequence[Sequence[int]],
    searching: Searching,
    limit: int,
    *,
    tokens: int = TOKENS,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each source's index in ``sources`` and its hypotheses, best first; longest sources first.

    Every source ends with ``eos``. ``limit`` is the longest target, see ``default_max_length``.
    """
    for places in in_batches([len(source) for source in sources], searching.beam_size, tokens):
        found = search_together(network, [sources[place] for place in places], searching, limit)
        yield from zip(places, found, strict=True)


def in_batches(lengths: Sequence[int], beam_size: int, tokens: int) -> Iterator[list[int]]:
    """Batches of indices, longest sources first; rows hold at most ``tokens`` padded tokens."""
    longest_first = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    while longest_first:
        count = max(1, tokens // (beam_size * max(1, lengths[longest_first[0]])))
        yield longest_first[:count]
        del longest_first[:count]


@torch.inference_mode()
def search_together(
    network: Transformer, sources: Sequence[Sequence[int]], searching: Searching, limit: int
) -> list[list[Hypothesis]]:
    """The finished hypotheses of every sentence of one batch, best first."""
    network.eval()
    special, beam_size = searching.special, searching.beam_size
    device = next(network.parameters()).device
    never = torch.tensor([special.pad, special.bos], device=device)
    cache = network.start(_padded(sources, special.pad).to(device))
    tokens_N = torch.full((len(sources),), special.bos, device=device)
    for token in searching.target_prefix:
        network.step(tokens_N, cache)
        tokens_N = torch.full_like(tokens_N, token)
    longest_B = np.array([default_max_length(len(source), limit) for source in sources])
    finished: list[list[Hypothesis]] = [[] for _ in sources]
    sentences_B = np.arange(len(sources))
    totals_BW = torch.zeros(len(sources), 1, device=device)
    live_BWT = np.zeros((len(sources), 1, 0), np.int64)
    length = len(searching.target_prefix)
    while len(sentences_B):
        length += 1
        logits_NV = network.step(tokens_N, cache).float()
        if length == len(searching.target_prefix) + 1:
            logits_NV[:, special.eos] = -torch.inf
        log_probs_NV = logits_NV.log_softmax(-1)
        log_probs_NV[:, never] = -torch.inf
        ids_BC, parents_BC, grown_BC = _best(log_probs_NV, totals_BW, 2 * beam_size)
        last_B = longest_B == length
        real_BC = np.isfinite(grown_BC)
        is_eos_BC = ids_BC == special.eos
        ends_BC = (is_eos_BC | last_B[:, None]) & real_BC
        counts_BC = ends_BC & (np.arange(ends_BC.shape[1]) < beam_size)
        norm = norm_of(length, searching.length_penalty, searching.length_normalisation)
        for b, c in np.argwhere(counts_BC).tolist():
            prefix = tuple(live_BWT[b, parents_BC[b, c]].tolist())
            ids = prefix if is_eos_BC[b, c] else (*prefix, int(ids_BC[b, c]))
            finished[sentences_B[b]].append(Hypothesis(ids, float(grown_BC[b, c]) / norm))
        if searching.length_penalty == 0:
            enough_B = counts_BC[:, 0]
        else:
            enough_B = np.array([len(finished[i]) >= beam_size for i in sentences_B])
        # The best unfinished candidates continue, in order; excluded candidates are sorted last.
        kept_BW = np.argsort(ends_BC | ~real_BC, axis=1, kind="stable")[:, :beam_size]
        goes_on_B = ~(enough_B | last_B)
        width = live_BWT.shape[1]
        rows_N, tokens_N, totals_BW, live_BWT = _kept(
            (ids_BC, parents_BC, np.where(ends_BC, -np.inf, grown_BC)),
            kept_BW,
            goes_on_B,
            live_BWT,
            device,
        )
        cache = _follow(
            cache, rows_N, all_continue=bool(goes_on_B.all()), widened=live_BWT.shape[1] != width
        )
        sentences_B, longest_B = sentences_B[goes_on_B], longest_B[goes_on_B]
    return [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in finished]


def _padded(sources: Sequence[Sequence[int]], pad: int) -> Tensor:
    longest = max(map(len, sources))
    return torch.tensor([[*source, *[pad] * (longest - len(source))] for source in sources])


def _best(
    log_probs_NV: Tensor, totals_BW: Tensor, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Each sentence's best candidates, best first: token, parent row, total log-probability."""
    sentences, width = totals_BW.shape
    vocabulary = log_probs_NV.size(1)
    grown = totals_BW[..., None] + log_probs_NV.view(sentences, width, vocabulary)
    best = grown.view(sentences, -1).topk(min(count, width * vocabulary))
    places_BC = best.indices.cpu().numpy()
    return places_BC % vocabulary, places_BC // vocabulary, best.values.cpu().numpy()


def _kept(
    candidates: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]],
    kept_BW: NDArray[np.int64],
    goes_on_B: NDArray[np.bool_],
    live_BWT: NDArray[np.int64],
    device: torch.device,
) -> tuple[Tensor, Tensor, Tensor, NDArray[np.int64]]:
    """The continuing rows: parent row, last token, total, and all tokens."""
    ids_BC, parents_BC, totals_BC = candidates
    ids_BW = np.take_along_axis(ids_BC, kept_BW, axis=1)[goes_on_B]
    parents_BW = np.take_along_axis(parents_BC, kept_BW, axis=1)[goes_on_B]
    totals_BW = np.take_along_axis(totals_BC, kept_BW, axis=1)[goes_on_B]
    before = np.take_along_axis(live_BWT[goes_on_B], parents_BW[..., None], axis=1)
    live = np.concatenate((before, ids_BW[..., None]), axis=2)
    rows = np.flatnonzero(goes_on_B)[:, None] * live_BWT.shape[1] + parents_BW
    return (
        torch.from_numpy(rows.ravel()).to(device),
        torch.from_numpy(ids_BW.ravel()).to(device),
        torch.from_numpy(totals_BW).to(device),
        live,
    )


def _follow(cache: Cache, rows_N: Tensor, *, all_continue: bool, widened: bool) -> Cache:
    """The cache of the continuing rows.

    Rows of one sentence share the source. While no sentence is finished, the source's keys and
    values, which are most of a cache, need no copy.
    """
    if widened or not all_continue:
        return cache.select(rows_N)
    past = [layer.select(rows_N) if layer is not None else None for layer in cache.past]
    return Cache(cache.source, cache.source_visible, past, cache.length)
