"""Adapters of our engine and CTranslate2: token ids in, token ids out, with the same search.

The measured processes import this module. Each engine imports its libraries when it is opened, so
that neither process loads those of the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from models.bundle.manifest import Precision
from service.runtime import processor

if TYPE_CHECKING:
    from benchmarks.workloads import Sentences
    from service.catalogue.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class Search:
    """Beam search until ``beam_size`` hypotheses are complete; scores are divided by length."""

    beam_size: int
    max_decoding_length: int
    """Includes ``eos``; no workload reaches it."""


class Translating(Protocol):
    """An opened engine."""

    def translate(self, sentences: Sentences, search: Search) -> Sentences:
        """The best translation of each sentence, without ``eos``."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Dragoman:
    """Our engine as the service runs it; all sentences are submitted at once."""

    bundle: Path
    precision: Precision
    threads: int

    label: ClassVar[str] = "dragoman"
    environment: ClassVar[dict[str, str]] = {}

    def open(self) -> Translating:
        runner = asyncio.Runner()
        model = runner.run(open_engine(self.bundle, self.precision, self.threads))
        return _OpenDragoman(runner, model)


async def open_engine(bundle: Path, precision: Precision, threads: int) -> LoadedModel:
    """A model loaded and started as in the service, with the service's defaults and metrics."""
    from service.loading.loader import load_model
    from service.observability.metrics import Metrics
    from service.settings import Settings

    settings = Settings(precision=precision, threads=threads)
    return await load_model(bundle, settings, Metrics().observer)


class _OpenDragoman:
    def __init__(self, runner: asyncio.Runner, model: LoadedModel) -> None:
        from service.engine.types import DecodingOptions

        self._runner = runner
        self._engine = model.engine
        self._options = DecodingOptions

    def translate(self, sentences: Sentences, search: Search) -> Sentences:
        options = self._options(
            beam_size=search.beam_size,
            max_decoding_length=search.max_decoding_length,
            # CTranslate2 returns no scores by default either.
            return_scores=False,
        )

        async def all_at_once() -> Sentences:
            calls = (self._engine.decode(sentence, options) for sentence in sentences)
            decoded = await asyncio.gather(*calls)
            return tuple(each.hypotheses[0].token_ids for each in decoded)

        return self._runner.run(all_at_once())

    def close(self) -> None:
        self._runner.run(self._engine.close())
        self._runner.close()


def settings(flags: Collection[str]) -> dict[str, dict[str, str]]:
    """CTranslate2's settings to try on a processor with these instruction sets.

    By default it takes MKL on Intel's processors alone, and AVX-512 not on all that have it.
    """
    for flag, name in (("avx512f", "AVX512"), ("avx2", "AVX2")):
        if flag in flags:
            return {
                "default": {},
                f"oneDNN+{name}": {"CT2_FORCE_CPU_ISA": name, "CT2_USE_MKL": "0"},
                f"MKL+{name}": {"CT2_FORCE_CPU_ISA": name, "CT2_USE_MKL": "1"},
            }
    return {"default": {}}


SETTINGS = settings(processor.flags())
"""Options of CTranslate2 that it reads from the environment once per process, by name."""


@dataclass(frozen=True, slots=True)
class CTranslate2:
    """CTranslate2 with one of ``SETTINGS``; all sentences are one batch."""

    model: Path
    compute_type: str
    threads: int
    setting: str = "default"

    @property
    def label(self) -> str:
        return f"ctranslate2 ({self.setting})"

    @property
    def environment(self) -> dict[str, str]:
        return SETTINGS[self.setting]

    def open(self) -> Translating:
        return _OpenCTranslate2(self)

    def load(self) -> tuple[Any, list[str]]:
        """The translator, and the name of each token id."""
        import ctranslate2

        translator = ctranslate2.Translator(
            str(self.model),
            device="cpu",
            compute_type=self.compute_type,
            inter_threads=1,
            intra_threads=self.threads,
        )
        vocabulary = (self.model / "shared_vocabulary.json").read_text(encoding="utf-8")
        return translator, json.loads(vocabulary)


class _OpenCTranslate2:
    def __init__(self, engine: CTranslate2) -> None:
        self._translator, self._names = engine.load()
        self._ids = {name: i for i, name in enumerate(self._names)}

    def translate(self, sentences: Sentences, search: Search) -> Sentences:
        results = self._translator.translate_batch(
            [[self._names[i] for i in sentence] for sentence in sentences],
            beam_size=search.beam_size,
            max_decoding_length=search.max_decoding_length,
            max_batch_size=0,
        )
        return tuple(tuple(self._ids[name] for name in each.hypotheses[0]) for each in results)

    def close(self) -> None:
        self._translator.unload_model()


Engine = Dragoman | CTranslate2
