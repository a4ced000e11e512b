"""Test model without weights that upper-cases its source, byte by byte and exactly.

Fast enough for thousands of sentences a second. It is realistic for all code above the engine: its
second hypothesis differs from the first, and it can exceed the output length.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from models.bundle.manifest import (
    DecodingDefaults,
    Direction,
    Manifest,
    SentenceLimits,
    SpecialIds,
)
from models.bundle.tokenizer import Span, UnknownToken
from service.catalogue.attention_reader import AttentionReader
from service.catalogue.loaded_model import LoadedModel, Tokenizer
from service.catalogue.repository import FoundBundle
from service.catalogue.result_cache import ResultCache
from service.engine.engine import Engine
from service.engine.group import EngineGroup
from service.engine.scheduler import Scheduler
from service.engine.types import MOST_ALTERNATIVES
from service.loading.loader import ModelObserver
from service.runtime.backend import Backend, FloatArray, Limits
from service.settings import Settings
from tests.models.tiny import invented_provenance, tiny_dimensions
from tests.support.scripted import Script, ScriptedAttention, ScriptedBackend

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
