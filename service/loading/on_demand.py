"""Lists bundles by their manifests, as models that are loaded when they are used.

Models on a GPU reserve its memory when they are loaded, so they are loaded at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from models.bundle.bundle import (
    SHORTLIST,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    Bundle,
    read_manifest,
)
from models.bundle.manifest import InvalidBundle, Manifest, Precision
from service.catalogue.attention_reader import check_lengths
from service.catalogue.errors import megabytes, without_directory
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle
from service.catalogue.residency import OnDemand, Residency
from service.catalogue.result_cache import ResultCache
from service.engine.types import DEFAULT_ORIGIN, Decoded, DecodingOptions, Origin
from service.loading.loader import ObserverFor, facts_of, placed
from service.loading.tokenizers import OnDemandTokenizers, TokenizerCache
from service.runtime.backend import AttentionMaps
from service.settings import Settings

logger = logging.getLogger(__name__)

Load = Callable[[FoundBundle], Awaitable[LoadedModel]]


class OnDemandLoader:
    """A ``Loader`` of ``ModelRepository`` that reads manifests only."""

    def __init__(
        self,
        settings: Settings,
        residency: Residency,
        load: Load,
        observer_for: ObserverFor,
        announce: Callable[[Mapping[str, str]], None],
    ) -> None:
        """``load`` loads a bundle at its first use."""
        self._settings = settings
        self._residency = residency
        self._load = load
        self._observer_for = observer_for
        self._announce = announce
        self._tokenizers = TokenizerCache()

    async def __call__(self, bundle: FoundBundle) -> LoadedModel:
        """The model of a bundle, not yet verified; raises ``InvalidBundle``."""
        manifest = await asyncio.to_thread(read_manifest, bundle.path)
        device, precision = placed(bundle.path, manifest, self._settings)
        if device == "cuda":
            return await self._load(bundle)
        needed, limit = _loaded_bytes(manifest, precision), self._settings.model_megabytes
        if needed > limit << 20:
            raise InvalidBundle(
                f"{bundle.path} needs {megabytes(needed)} MB at least; "
                f"DRAGOMAN_MODEL_MEGABYTES allows {limit}"
            )
        model = self._listed(bundle, manifest, precision)
        self._announce(facts_of(model))
        logger.info("model listed", extra={"model": model.name, "version": manifest.version})
        return model

    def _listed(self, bundle: FoundBundle, manifest: Manifest, precision: Precision) -> LoadedModel:
        tokenizers = OnDemandTokenizers(bundle.path, manifest, self._tokenizers)

        async def load() -> LoadedModel:
            try:
                loaded = await self._load(bundle)
            except InvalidBundle as error:
                raise InvalidBundle(without_directory(str(error), bundle.path)) from error
            if loaded.manifest != manifest:
                await loaded.close()
                raise InvalidBundle(f"{bundle.name} was replaced and is listed again soon")
            tokenizers.loaded(loaded.tokenizers)
            return loaded

        def unloaded() -> None:
            tokenizers.loaded(None)
            model.forget_vocabulary()

        on_demand = OnDemand(manifest.name, _loaded_bytes(manifest, precision), load, unloaded)
        engine = _OnDemandEngine(on_demand, self._residency)
        observer = self._observer_for(manifest.name)
        model = LoadedModel(
            manifest,
            precision,
            tokenizers,
            engine,
            _OnDemandAttention(on_demand, self._residency, manifest),
            ResultCache(engine.decode, self._settings.result_megabytes << 20, observer.looked_up),
            open_tokenizers=tokenizers.prepare,
        )
        return model


class _OnDemandEngine:
    """Loads the model for each sentence that is decoded while it is not in memory."""

    def __init__(self, wanted: OnDemand, residency: Residency) -> None:
        self._wanted = wanted
        self._residency = residency

    @property
    def alive(self) -> bool:
        """A dead engine is replaced at its next use."""
        return not self._wanted.closed

    @property
    def complete(self) -> bool:
        return self.alive

    @property
    def lost(self) -> bool:
        """Only GPUs are lost to a process."""
        return False

    @property
    def devices(self) -> tuple[str, ...]:
        """None while the model is not in memory."""
        model = self._wanted.model
        return model.engine.devices if model is not None else ()

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        origin: Origin = DEFAULT_ORIGIN,
    ) -> Decoded:
        async with self._residency.using(self._wanted) as model:
            return await model.engine.decode(source_ids, options, origin)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        model = self._wanted.model
        if model is None:
            yield
            return
        with model.engine.gathering():
            yield

    async def close(self) -> None:
        await self._residency.close(self._wanted)


class _OnDemandAttention:
    def __init__(self, wanted: OnDemand, residency: Residency, manifest: Manifest) -> None:
        self._wanted = wanted
        self._residency = residency
        self._limits = manifest.limits

    def check(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> None:
        check_lengths(self._limits, source_ids, target_ids)

    async def read(
        self, source_ids: tuple[int, ...], target_ids: tuple[int, ...], caller: str = ""
    ) -> AttentionMaps:
        self.check(source_ids, target_ids)
        async with self._residency.using(self._wanted) as model:
            return await model.attention.read(source_ids, target_ids, caller)

    async def close(self) -> None:
        """The engine closes the model."""


def _loaded_bytes(manifest: Manifest, precision: Precision) -> int:
    """Bytes of the files that a load of this precision reads."""
    weights = Bundle(Path(), manifest).weights(precision)
    names = {weights, TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER, SHORTLIST}
    return sum(
        file.size
        for name, file in manifest.files.items()
        if name in names or name.endswith(f".{precision}.onnx")
    )
