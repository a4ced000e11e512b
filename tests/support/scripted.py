"""Scripted backend without a model: a Python function computes the logits.

It asserts the preconditions of the ``Backend`` interface.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from service.runtime.backend import (
    AttentionMaps,
    CacheUse,
    Candidates,
    Edits,
    EncodeBatch,
    FloatArray,
    Limits,
    StepBatch,
)

Script = Callable[[tuple[int, ...], tuple[int, ...]], FloatArray]
"""(source, prefix) -> logits over the vocabulary; the prefix begins with ``bos``."""
Attention = Callable[[tuple[int, ...], tuple[int, ...]], FloatArray]
"""(source, prefix) -> attention of the prefix's last token over the source."""


def evenly(source: tuple[int, ...], _: tuple[int, ...]) -> FloatArray:
    """Uniform attention over the source."""
    return np.full(len(source), 1 / len(source), np.float32)


def log_softmax(logits_V: FloatArray) -> FloatArray:
    """Log-softmax in float32, as a model computes it."""
    shifted = logits_V - logits_V.max()
    log_probs: FloatArray = shifted - np.log(np.exp(shifted).sum(dtype=np.float32))
    return log_probs.astype(np.float32)


class ScriptedBackend:
    """Implements ``service.runtime.backend.Backend``, and records the sizes of its batches."""

    def __init__(self, script: Script, limits: Limits, attention: Attention = evenly) -> None:
        self.limits = limits
        self.script = script
        self.attention = attention
        self.sources: list[tuple[int, ...]] = []
        self.prefixes: list[dict[int, tuple[int, ...]]] = []
        """Prefix of each row, by slot and row."""
        self.encode_sizes: list[int] = []
        """Sentences of each encode so far."""
        self.batch_sizes: list[int] = []
        """Rows of each step so far."""
        self.closed = False

    def encode(self, batch: EncodeBatch) -> None:
        assert 0 <= batch.first_slot <= len(self.sources), "new sentences get the next slots"
        assert batch.first_slot + len(batch.sources) <= self.limits.slots
        assert all(0 < len(source) <= self.limits.source_length for source in batch.sources)
        self.encode_sizes.append(len(batch.sources))
        del self.sources[batch.first_slot :], self.prefixes[batch.first_slot :]
        self.sources += batch.sources
        self.prefixes += [
            dict.fromkeys(range(self.limits.rows_per_slot), ()) for _ in batch.sources
        ]

    def step(self, batch: StepBatch) -> Candidates:
        sentences, rows = batch.parents_BK.shape
        assert 0 < sentences <= len(self.sources), "a step of sentences that were not encoded"
        assert 0 < rows <= self.limits.rows_per_slot
        assert batch.tokens_BK.shape == (sentences, rows)
        del self.sources[sentences:], self.prefixes[sentences:]
        self.batch_sizes.append(int((batch.parents_BK >= 0).sum()))
        self.prefixes = [
            self._grown(batch, sentence, prefixes)
            for sentence, prefixes in enumerate(self.prefixes)
        ]
        vocabulary = len(self.script(self.sources[0], next(iter(self.prefixes[0].values()))))
        longest = max(map(len, self.sources))
        logits = np.zeros((sentences, rows, vocabulary), np.float32)
        attention_BKS = np.zeros((sentences, rows, longest), np.float32)
        for sentence, prefixes in enumerate(self.prefixes):
            source = self.sources[sentence]
            for row, prefix in prefixes.items():
                logits[sentence, row] = self.script(source, prefix)
                if batch.attention:
                    attention_BKS[sentence, row, : len(source)] = self.attention(source, prefix)
        if batch.edits is not None:
            _edit(logits.reshape(-1, vocabulary), batch.edits)
        log_probs = np.apply_along_axis(log_softmax, 2, logits).astype(np.float32)
        ids_BKN = np.argsort(-log_probs, axis=2, kind="stable")[:, :, : batch.num_candidates]
        asked_BK = np.zeros((sentences, rows), np.int32)
        if batch.asked_BK is not None:
            asked_BK = batch.asked_BK
        return Candidates(
            ids_BKN,
            np.take_along_axis(log_probs, ids_BKN, axis=2),
            np.take_along_axis(log_probs, asked_BK[:, :, None], axis=2)[:, :, 0],
            attention_BKS if batch.attention else None,
        )

    def move(self, origin: int, slot: int) -> None:
        assert 0 <= slot < origin < len(self.sources), "only the last sentence moves, downwards"
        self.sources[slot] = self.sources[origin]
        self.prefixes[slot] = self.prefixes[origin]

    def cache_use(self) -> CacheUse:
        """Counts one byte per stored token of sources and prefixes."""
        limits = self.limits
        held = sum(map(len, self.sources))
        held += sum(len(prefix) for rows in self.prefixes for prefix in rows.values())
        longest = limits.source_length + limits.rows_per_slot * (limits.target_length + 1)
        return CacheUse(held, limits.slots * longest)

    def close(self) -> None:
        self.closed = True

    def _grown(
        self, batch: StepBatch, sentence: int, prefixes: dict[int, tuple[int, ...]]
    ) -> dict[int, tuple[int, ...]]:
        parents = batch.parents_BK[sentence].tolist()
        tokens = batch.tokens_BK[sentence].tolist()
        grown = {
            row: (*prefixes[parent], token)
            for row, (parent, token) in enumerate(zip(parents, tokens, strict=True))
            if parent >= 0
        }
        assert grown, "a sentence without a row"
        position = batch.positions_B[sentence]
        assert all(len(prefix) == position + 1 for prefix in grown.values()), (
            "a position does not follow its prefix"
        )
        return grown


class ScriptedAttention:
    """Diagonal attention maps without a model; log-probabilities come from ``script``.

    Target position ``t`` attends mostly to source position ``t``, or to the last one. The weight
    on the diagonal grows with head and layer, so that all maps differ.
    """

    def __init__(
        self,
        script: Script,
        *,
        encoder_layers: int,
        decoder_layers: int,
        heads: int,
        bos: int,
        eos: int,
    ) -> None:
        self.script = script
        self.calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.closed = False
        self._encoder = encoder_layers, heads
        self._decoder = decoder_layers, heads
        self._bos, self._eos = bos, eos

    def run(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        assert source_ids and source_ids[-1] == self._eos, "a source ends with eos"
        assert not {self._bos, self._eos} & set(target_ids), "a target has neither bos nor eos"
        assert not self.closed
        self.calls.append((source_ids, target_ids))
        fed = (self._bos, *target_ids)
        source, target = len(source_ids), len(fed)
        log_probs_TV = np.stack(
            [log_softmax(self.script(source_ids, fed[: t + 1])) for t in range(target)]
        )
        causal = np.tri(target, dtype=np.float32)
        return AttentionMaps(
            _ahead(*self._encoder, np.ones((source, source), np.float32)),
            _ahead(*self._decoder, causal),
            _ahead(*self._decoder, np.ones((target, source), np.float32)),
            log_probs_TV[np.arange(target), (*target_ids, self._eos)],
            -(np.exp(log_probs_TV) * log_probs_TV).sum(-1),
        )

    def close(self) -> None:
        self.closed = True


def _ahead(layers: int, heads: int, visible_QK: FloatArray) -> FloatArray:
    """``[L, H, Q, K]``: mostly diagonal attention, the remainder uniform over visible keys."""
    queries, keys = visible_QK.shape
    rest_QK = visible_QK / visible_QK.sum(-1, keepdims=True)
    ahead_QK = np.zeros_like(visible_QK)
    ahead_QK[np.arange(queries), np.minimum(np.arange(queries), keys - 1)] = 1
    sure = 1 - 0.5 / (1 + np.arange(layers * heads, dtype=np.float32).reshape(layers, heads, 1, 1))
    maps: FloatArray = sure * ahead_QK + (1 - sure) * rest_QK
    return maps


def _edit(logits_RV: FloatArray, edits: Edits) -> None:
    places = edits.rows_E, edits.token_ids_E
    assert len(set(zip(*(p.tolist() for p in places), strict=True))) == len(edits.rows_E), (
        "two edits of one logit"
    )
    old_E = logits_RV[places]
    penalised_E = np.where(old_E < 0, old_E * edits.penalties_E, old_E / edits.penalties_E)
    logits_RV[places] = penalised_E + edits.biases_E
