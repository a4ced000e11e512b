"""Test models without weights, and what is built of them.

A Python function computes the logits of a scripted backend, which asserts the preconditions of the
``Backend`` interface. The shouting model upper-cases its source exactly, byte by byte. It is
realistic for all code above the engine: its second hypothesis differs from the first, and it can
exceed the output length. The directed model upper-cases German and lower-cases English.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from models.bundle.manifest import DecodingDefaults, Direction, Manifest, SentenceLimits, SpecialIds
from models.bundle.tokenizer import Span, UnknownToken
from service.catalogue.attention_reader import AttentionReader
from service.catalogue.loaded_model import LoadedModel, Tokenizer
from service.catalogue.repository import FoundBundle, ModelRepository
from service.catalogue.result_cache import ResultCache
from service.engine.engine import Engine
from service.engine.group import EngineGroup
from service.engine.scheduler import Scheduler
from service.engine.types import MOST_ALTERNATIVES
from service.loading.loader import ModelObserver
from service.runtime.backend import (
    AttentionMaps,
    Backend,
    CacheUse,
    Candidates,
    Edits,
    EncodeBatch,
    FloatArray,
    Limits,
    StepBatch,
    WarmUp,
)
from service.settings import Settings
from service.text.types import Detection
from service.translation.admission import Admission
from service.translation.local_translator import LocalTranslator
from tests.models.tiny import invented_provenance, tiny_dimensions

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

    def check(self) -> None:
        """No device can be lost."""

    def reserve(self) -> None:
        """No memory is allocated ahead."""

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        return WarmUp(0, 0, 0.0)

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


PAD, UNK, BOS, EOS = range(4)
SPECIAL_IDS = SpecialIds(pad=PAD, unk=UNK, bos=BOS, eos=EOS)
_FIRST_BYTE = 4
_VOCABULARY = _FIRST_BYTE + 256
SOURCE_LENGTH, TARGET_LENGTH = 64, 96


class ByteTokenizer:
    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(_FIRST_BYTE + byte for byte in text.encode())

    def decode(self, ids: tuple[int, ...]) -> str:
        """Special tokens are dropped."""
        text = bytes(i - _FIRST_BYTE for i in ids if i >= _FIRST_BYTE)
        return text.decode(errors="replace")

    def spans(self, text: str) -> tuple[Span, ...]:
        """Every byte of a character has the span of the whole character."""
        lengths = (len(character.encode()) for character in text)
        return tuple((i, i + 1) for i, length in enumerate(lengths) for _ in range(length))

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        return ()

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        """An incomplete character is a replacement mark, which its next byte replaces."""
        ends = [len(self.decode(ids[:i])) for i in range(len(ids) + 1)]
        return tuple((min(start, end), end) for start, end in pairwise(ends))

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        names = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
        return tuple(
            names[i] if i in names else bytes([i - _FIRST_BYTE]).decode("latin-1") for i in ids
        )


@dataclass(frozen=True)
class Both:
    """One tokenizer for both sides."""

    source: Tokenizer

    @property
    def target(self) -> Tokenizer:
        return self.source


def shouting(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Upper case with high probability, lower case as a poor second choice, then the end."""
    log_probs = np.full(_VOCABULARY, -20.0, np.float32)
    log_probs[EOS] = -90.0
    token = source[min(len(prefix), len(source)) - 1]
    byte = token - _FIRST_BYTE
    if ord("a") <= byte <= ord("z"):
        log_probs[token] = -3.0
        token = byte - 32 + _FIRST_BYTE
    log_probs[token] = -0.05
    return log_probs


def endless(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Never ends by itself."""
    log_probs = np.full(_VOCABULARY, -20.0, np.float32)
    log_probs[EOS] = -90.0
    log_probs[_FIRST_BYTE + ord("x")] = -0.01
    return log_probs


def make_manifest(name: str, source: str, target: str, version: str = "1") -> Manifest:
    return Manifest(
        name=name,
        version=version,
        directions=(Direction(source=source, target=target),),
        dimensions=tiny_dimensions(_VOCABULARY),
        special_ids=SPECIAL_IDS,
        limits=SentenceLimits(source_length=SOURCE_LENGTH, target_length=TARGET_LENGTH),
        precisions=("fp32", "int8"),
        decoding=DecodingDefaults(beam_size=2),
        provenance=invented_provenance("shouting", "int8", beam_size=2),
    )


def put_bundle(
    directory: Path,
    name: str,
    source: str = "de",
    target: str = "en",
    version: str = "1",
    *,
    copy_without_letters: bool = True,
) -> None:
    """A directory that ``discover`` accepts as a bundle. Only ``load_shouting`` can load it."""
    (directory / name).mkdir(parents=True, exist_ok=True)
    manifest = make_manifest(name, source, target, version)
    decoding = manifest.decoding.model_copy(update={"copy_without_letters": copy_without_letters})
    manifest = manifest.model_copy(update={"decoding": decoding})
    (directory / name / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")


BROKEN = (
    "manifest has schema 7; this reader knows 2: export the model again with "
    "`python -m training export`"
)
"""Error of the bundle that ``put_broken_bundle`` writes."""


def put_broken_bundle(directory: Path, name: str) -> None:
    (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / name / "manifest.json").write_text(json.dumps({"schema": 7}), encoding="utf-8")


async def make_model(
    manifest: Manifest,
    backend: Backend | None = None,
    observer: ModelObserver | None = None,
    result_bytes: int = 0,
) -> LoadedModel:
    if backend is None:
        backend = ScriptedBackend(shouting, make_limits())
    script = backend.script if isinstance(backend, ScriptedBackend) else shouting
    scheduler = Scheduler(backend.limits, SPECIAL_IDS)
    observe = observer.iterated if observer is not None else (lambda _: None)
    engine = EngineGroup([Engine(backend, scheduler, observe)])
    await engine.start()
    attention = AttentionReader(make_attention(manifest, script), manifest.limits)
    on_lookup = observer.looked_up if observer is not None else (lambda _: None)
    results = ResultCache(engine.decode, result_bytes, on_lookup)
    return LoadedModel(manifest, "int8", Both(ByteTokenizer()), engine, attention, results)


def make_attention(manifest: Manifest, script: Script = shouting) -> ScriptedAttention:
    return ScriptedAttention(
        script,
        encoder_layers=manifest.dimensions.encoder_layers,
        decoder_layers=manifest.dimensions.decoder_layers,
        heads=manifest.dimensions.heads,
        bos=BOS,
        eos=EOS,
    )


def make_limits(slots: int = 8, rows_per_slot: int = 4) -> Limits:
    return Limits(slots, rows_per_slot, SOURCE_LENGTH, TARGET_LENGTH)


async def load_shouting(
    path: Path,
    settings: Settings,
    observer_for: Callable[[str], ModelObserver],
    several: Script | None = None,
) -> LoadedModel:
    """Replaces ``service.loading.loader.load_model``: uses the manifest, but no weights.

    ``several`` is the model of a bundle of several directions.
    """
    manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
    script = several if several and len(manifest.directions) > 1 else shouting
    limits = make_limits(settings.slots or 8, max(settings.max_beam_size, MOST_ALTERNATIVES))
    backend = ScriptedBackend(script, limits)
    observer = observer_for(manifest.name)
    return await make_model(manifest, backend, observer, settings.result_megabytes << 20)


async def load_found(bundle: FoundBundle) -> LoadedModel:
    """A loader for a ``ModelRepository``."""
    manifest = Manifest.from_json((bundle.path / "manifest.json").read_text(encoding="utf-8"))
    return await make_model(manifest)


LOUD, SOFT = _FIRST_BYTE + 0xFE, _FIRST_BYTE + 0xFF
"""Tags before a source, which select the direction: bytes that never occur in UTF-8."""
LOUD_PIECE, SOFT_PIECE = "þ", "ÿ"
_X = ByteTokenizer().encode("x")[0]


def directed(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Model that reads languages from tags; without them, it writes an endless series of ``x``."""
    tag, text = source[0], source[1:]
    if tag == LOUD:
        return shouting(text, prefix)
    log_probs = np.full(_VOCABULARY, -20.0, np.float32)
    log_probs[EOS] = -90.0
    token = _X
    if tag == SOFT and prefix[:2] == (BOS, SOFT):
        token = text[min(len(prefix) - 1, len(text)) - 1]
        if ord("A") <= token - _FIRST_BYTE <= ord("Z"):
            log_probs[token] = -3.0
            token += 32
    log_probs[token] = -0.05
    return log_probs


def two_directions() -> Manifest:
    return make_manifest("both", "de", "en").model_copy(
        update={
            "directions": (
                Direction(source="de", target="en", source_prefix=(LOUD,)),
                Direction(source="en", target="de", source_prefix=(SOFT,), target_prefix=(SOFT,)),
            )
        }
    )


load_directed = partial(load_shouting, several=directed)
"""Replaces ``service.loading.loader.load_model``; a bundle of one direction upper-cases."""


class ShiftedTokenizer(ByteTokenizer):
    """Target tokenizer of separate vocabularies: every id is one higher."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(_FIRST_BYTE + (i - _FIRST_BYTE + 1) % 256 for i in super().encode(text))

    def decode(self, ids: tuple[int, ...]) -> str:
        return super().decode(_back(ids))

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        return super().decoded_spans(_back(ids))

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return super().pieces(_back(ids))


def _back(ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_FIRST_BYTE + (i - _FIRST_BYTE - 1) % 256 if i >= _FIRST_BYTE else i for i in ids)


@dataclass(frozen=True)
class OneEach:
    source: ByteTokenizer = field(default_factory=ByteTokenizer)
    target: ByteTokenizer = field(default_factory=ShiftedTokenizer)


def shifting(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Upper-cases in the target's ids."""
    log_probs = shouting(source, tuple(prefix))
    return np.concatenate((log_probs[:_FIRST_BYTE], np.roll(log_probs[_FIRST_BYTE:], 1)))


class FirstLetterDetector:
    """Detects the language whose code the text begins with."""

    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        return tuple(Detection(code, 0.9) for code in languages if text.startswith(code))

    def unserved(self, text: str, languages: Sequence[str]) -> Detection | None:
        return Detection("fr", 0.95) if text.startswith("fr") and "fr" not in languages else None


@asynccontextmanager
async def offering(*models: LoadedModel) -> AsyncIterator[ModelRepository]:
    """A repository of these models, which it closes at the end."""
    by_name = {model.name: model for model in models}

    async def load(bundle: FoundBundle) -> LoadedModel:
        return by_name[bundle.name]

    repository = ModelRepository(lambda: [FoundBundle(name, Path(name)) for name in by_name], load)
    await repository.reload()
    try:
        yield repository
    finally:
        await repository.close()


def translator_of(repository: ModelRepository, max_tokens: int = 10_000) -> LocalTranslator:
    return LocalTranslator(repository, Admission(max_tokens), FirstLetterDetector())
