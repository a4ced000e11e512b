"""The models on offer, and who is still using the ones that no longer are.

``reload`` makes the offer equal to the bundles that are found. A bundle that cannot be loaded
takes no other down: it is left out and its reason is kept for people to read; where a model was
on offer under its name, that model stays. The offer changes in one assignment, after everything
in it has loaded and proved itself; work in flight keeps the model it started with, and a retired
model closes when its last lease ends. The swap and the counting happen on the event loop, between
awaits, and need no lock; reloads take turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from models.bundle.languages import canonical, display_name
from models.bundle.manifest import InvalidBundle, Manifest, Precision
from service.engine.engine import Engine
from service.translation.errors import NotReady, UnknownLanguage, UnsupportedPair
from service.translation.types import Language, LanguagePair

logger = logging.getLogger(__name__)


class Tokenizer(Protocol):
    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: tuple[int, ...]) -> str: ...


@dataclass(frozen=True, slots=True)
class FoundBundle:
    """A bundle directory as it was when somebody looked; ``stamp`` differs once it is replaced."""

    name: str
    path: Path
    stamp: tuple[int, ...] = ()


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model that has proved itself and can be leased."""

    manifest: Manifest
    precision: Precision
    tokenizer: Tokenizer
    engine: Engine
    leases: int = 0

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.manifest.source, self.manifest.target)


@dataclass(frozen=True, slots=True)
class Offer:
    """What clients may choose from, and why some of what was found is not in it."""

    models: tuple[LoadedModel, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Bundle directory to reason."""

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({model.pair.source for model in self.models}))

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(sorted({model.pair.target for model in self.models}))

    @property
    def languages(self) -> tuple[Language, ...]:
        """Every language on either side, by name."""
        codes = {*self.sources, *self.targets}
        languages = (Language(c, display_name(c), self.targets_of(c)) for c in codes)
        return tuple(sorted(languages, key=lambda language: language.name))

    def targets_of(self, source: str) -> tuple[str, ...]:
        """The languages that ``source`` is translated to, itself left out."""
        found = {model.pair.target for model in self.models if model.pair.source == source}
        return tuple(sorted(found))

    def model(self, pair: LanguagePair) -> LoadedModel | None:
        """Which model translates a pair: where several do, the first by name that is alive."""
        fitting = [model for model in self.models if model.pair == pair]
        return next((m for m in fitting if m.engine.alive), fitting[0] if fitting else None)

    def pair(self, source: str, target: str) -> LanguagePair:
        """The pair of two codes in any spelling; raises by name if no model translates it.

        A language on offer may be paired with itself.
        """
        pair = LanguagePair(
            _known(source, {*self.sources, *self.targets}, self.sources),
            _known(target, {*self.sources, *self.targets}, self.targets),
        )
        if pair.source != pair.target and pair.target not in self.targets_of(pair.source):
            raise UnsupportedPair(pair.source, pair.target, self.targets_of(pair.source))
        return pair


Discover = Callable[[], Iterable[FoundBundle]]
Loader = Callable[[FoundBundle], Awaitable[LoadedModel]]


class ModelRepository:
    def __init__(self, discover: Discover, load: Loader) -> None:
        self._discover = discover
        self._load = load
        self._reloading = asyncio.Lock()
        self._offer: Offer | None = None
        self._found: Mapping[str, tuple[FoundBundle, LoadedModel]] = {}
        self._retiring: set[LoadedModel] = set()
        self._closed = False

    @property
    def offer(self) -> Offer:
        """What is on offer; raises ``NotReady`` while nothing is."""
        if self._closed:
            raise NotReady("the service is shutting down")
        if self._offer is None:
            raise NotReady("the models are being loaded")
        if not self._offer.models:
            broken = "; ".join(f"{name}: {why}" for name, why in self._offer.failed.items())
            raise NotReady(f"no model is on offer: {broken or 'there is no bundle'}")
        return self._offer

    @property
    def failed(self) -> Mapping[str, str]:
        """Bundles that were found and could not be loaded, and why."""
        return self._offer.failed if self._offer is not None else {}

    @property
    def stopped(self) -> tuple[str, ...]:
        """Models on offer whose engine has died: they can only be had by a restart."""
        models = self._offer.models if self._offer is not None else ()
        return tuple(model.name for model in models if not model.engine.alive)

    @asynccontextmanager
    async def lease(self, pair: LanguagePair) -> AsyncIterator[LoadedModel]:
        """The model for a pair, which stays loaded until the lease ends."""
        offer = self.offer
        model = offer.model(pair)
        if model is None:
            raise UnsupportedPair(pair.source, pair.target, offer.targets_of(pair.source))
        model.leases += 1
        try:
            yield model
        finally:
            model.leases -= 1
            await self._close_if_idle(model)

    async def reload(self) -> None:
        """Offer what is found now. A model that cannot be replaced stays as it was."""
        async with self._reloading:
            if not self._closed:
                await self._reload()

    async def _reload(self) -> None:
        try:
            bundles = sorted(self._discover(), key=lambda bundle: bundle.name)
        except OSError as error:
            logger.error("the bundles cannot be listed, so the offer stands: %s", error)
            models = self._offer.models if self._offer is not None else ()
            self._offer = Offer(models, {str(error.filename): error.strerror or str(error)})
            return
        before = self._found
        kept: dict[str, tuple[FoundBundle, LoadedModel]] = {}
        loaded: list[LoadedModel] = []
        failed: dict[str, str] = {}
        try:
            for bundle in bundles:
                if bundle.name in before and _unchanged(bundle, *before[bundle.name]):
                    kept[bundle.name] = before[bundle.name]
                    continue
                try:
                    model = await self._load(bundle)
                # Bundles come from outside; whatever is wrong with one is no fault of the others.
                except Exception as error:
                    failed[bundle.name] = _reason(bundle, error)
                    if bundle.name in before:
                        kept[bundle.name] = before[bundle.name]
                else:
                    loaded.append(model)
                    kept[bundle.name] = (bundle, model)
        except BaseException:
            for model in loaded:
                await model.engine.close()
            raise
        after = tuple(model for _, model in kept.values())
        self._found, self._offer = kept, Offer(after, failed)
        for _, model in before.values():
            if model not in after:
                await self._retire(model)

    async def close(self) -> None:
        """Withdraw the offer and close every model. Whoever still waits for one is told so."""
        self._closed = True
        async with self._reloading:
            models = {model for _, model in self._found.values()} | self._retiring
            self._found, self._offer, self._retiring = {}, None, set()
            for model in models:
                await model.engine.close()

    async def _retire(self, model: LoadedModel) -> None:
        self._retiring.add(model)
        await self._close_if_idle(model)

    async def _close_if_idle(self, model: LoadedModel) -> None:
        if model in self._retiring and not model.leases:
            self._retiring.remove(model)
            await model.engine.close()


def _unchanged(bundle: FoundBundle, offered: FoundBundle, model: LoadedModel) -> bool:
    return bundle == offered and model.engine.alive


def _known(code: str, languages: set[str], offered: Iterable[str]) -> str:
    try:
        language = canonical(code)
    except ValueError as error:
        raise UnknownLanguage(code, offered) from error
    if language not in languages:
        raise UnknownLanguage(code, offered)
    return language


def _reason(bundle: FoundBundle, error: Exception) -> str:
    expected = isinstance(error, InvalidBundle | OSError)
    logger.error("bundle %s is not offered: %s", bundle.name, error, exc_info=not expected)
    return str(error) if expected else f"{type(error).__name__}: {error}"
