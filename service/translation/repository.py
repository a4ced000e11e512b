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
from typing import Literal, Protocol

from models.bundle.languages import canonical, display_name
from models.bundle.manifest import InvalidBundle, Manifest, Precision
from models.bundle.tokenizer import Span
from service.engine.engine import Engine
from service.translation.errors import NotReady, UnknownLanguage, UnknownModel, UnsupportedPair
from service.translation.reader import AttentionReader
from service.translation.results import Results
from service.translation.types import Language, LanguagePair

logger = logging.getLogger(__name__)


class Tokenizer(Protocol):
    """See ``models.bundle.tokenizer``."""

    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: tuple[int, ...]) -> str: ...

    def spans(self, text: str) -> tuple[Span, ...]:
        """The characters of ``text`` that each token of ``encode(text)`` comes from."""

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        """The characters of ``decode(ids)`` that each token becomes."""

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Each token for people to look at; ``▁`` stands for a blank."""


Stamp = tuple[tuple[str, int, int, int], ...]
"""Each file's name, inode, time of its last change in nanoseconds, and size in bytes."""


@dataclass(frozen=True, slots=True)
class FoundBundle:
    """A bundle directory as it was when somebody looked; ``stamp`` differs once a file does."""

    name: str
    path: Path
    stamp: Stamp = ()


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model that has proved itself and can be leased."""

    manifest: Manifest
    precision: Precision
    tokenizer: Tokenizer
    engine: Engine
    attention: AttentionReader
    results: Results
    leases: int = 0

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.manifest.source, self.manifest.target)

    async def close(self) -> None:
        """Stop the engine and the reader; whoever waits for either is told so."""
        await self.engine.close()
        await self.attention.close()


Route = tuple[LoadedModel, ...]
Side = Literal["sources", "targets"]


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
        direct = self._direct(source)
        indirect = {target for pivot in direct for target in self._direct(pivot)}
        return tuple(sorted((direct | indirect) - {source}))

    def direct_pairs(self) -> tuple[LanguagePair, ...]:
        """The pairs that a single model translates."""
        return tuple(sorted({model.pair for model in self.models}))

    def route(self, pair: LanguagePair, name: str | None = None) -> Route:
        """The models that lead from source to target: one, or two through a pivot.

        Where several models translate a pair, the first by name that is alive is taken, or the one
        called ``name``. English is the first choice of a pivot. Raises ``UnknownModel`` or
        ``UnsupportedPair``.
        """
        if name is not None:
            return (self._named(pair, name),)
        if direct := self._model(pair):
            return (direct,)
        routes = [
            (first, second)
            for pivot in sorted(self._direct(pair.source), key=lambda code: (code != "en", code))
            if (first := self._model(LanguagePair(pair.source, pivot)))
            and (second := self._model(LanguagePair(pivot, pair.target)))
        ]
        if not routes:
            raise UnsupportedPair(pair.source, pair.target, self.targets_of(pair.source))
        return next((r for r in routes if all(m.engine.alive for m in r)), routes[0])

    def language(self, code: str, side: Side) -> str:
        """The canonical spelling of a code; raises ``UnknownLanguage`` if it is not on offer."""
        return _known(code, {*self.sources, *self.targets}, getattr(self, side))

    def pair(self, source: str, target: str) -> LanguagePair:
        """The pair of two codes in any spelling; raises by name if no route leads there.

        A language on offer may be paired with itself.
        """
        pair = LanguagePair(self.language(source, "sources"), self.language(target, "targets"))
        if pair.source != pair.target and pair.target not in self.targets_of(pair.source):
            raise UnsupportedPair(pair.source, pair.target, self.targets_of(pair.source))
        return pair

    def _direct(self, source: str) -> set[str]:
        return {model.pair.target for model in self.models if model.pair.source == source}

    def _model(self, pair: LanguagePair) -> LoadedModel | None:
        fitting = [model for model in self.models if model.pair == pair]
        return next((m for m in fitting if m.engine.alive), fitting[0] if fitting else None)

    def _named(self, pair: LanguagePair, name: str) -> LoadedModel:
        named = [model for model in self.models if model.name == name]
        if not named:
            raise UnknownModel(name, sorted(model.name for model in self.models))
        if named[0].pair != pair:
            raise UnsupportedPair(pair.source, pair.target, (named[0].pair.target,), name)
        return named[0]


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload has done, by names of models; ``failed`` is by bundle directory."""

    loaded: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    """Models that are no longer on offer under their name."""
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.loaded or self.retired)


Discover = Callable[[], Iterable[FoundBundle]]
Loader = Callable[[FoundBundle], Awaitable[LoadedModel]]


class ModelRepository:
    def __init__(self, discover: Discover, load: Loader) -> None:
        self._discover = discover
        self._load = load
        self._reloading = asyncio.Lock()
        self._offer: Offer | None = None
        self._found: Mapping[str, tuple[FoundBundle, LoadedModel]] = {}
        self._broken: Mapping[str, tuple[FoundBundle, str]] = {}
        """Bundles that could not be loaded as they were when they were tried, and why."""
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
    async def lease(self, pair: LanguagePair, name: str | None = None) -> AsyncIterator[Route]:
        """The route of a pair, see ``Offer.route``; its models stay loaded until the lease ends."""
        route = self.offer.route(pair, name)
        for model in route:
            model.leases += 1
        try:
            yield route
        finally:
            for model in route:
                model.leases -= 1
            for model in route:
                await self._close_if_idle(model)

    async def reload(self, *, retry: bool = True) -> Reloaded:
        """Offer what is found now. A model that cannot be replaced stays as it was.

        Without ``retry``, a bundle that could not be loaded is not tried again while its files
        are the same.
        """
        async with self._reloading:
            return Reloaded() if self._closed else await self._reload(retry)

    async def _reload(self, retry: bool) -> Reloaded:
        try:
            found = await asyncio.to_thread(lambda: list(self._discover()))
        except OSError as error:
            return self._unlisted(error)
        before = self._found
        kept: dict[str, tuple[FoundBundle, LoadedModel]] = {}
        loaded: list[LoadedModel] = []
        broken: dict[str, tuple[FoundBundle, str]] = {}
        try:
            for bundle in sorted(found, key=lambda bundle: bundle.name):
                if bundle.name in before and _unchanged(bundle, *before[bundle.name]):
                    kept[bundle.name] = before[bundle.name]
                    continue
                outcome = await self._load_or_say_why(bundle, retry)
                if isinstance(outcome, LoadedModel):
                    loaded.append(outcome)
                    kept[bundle.name] = (bundle, outcome)
                    continue
                broken[bundle.name] = (bundle, outcome)
                if bundle.name in before:
                    kept[bundle.name] = before[bundle.name]
        except BaseException:
            for model in loaded:
                await model.close()
            raise
        after = tuple(model for _, model in kept.values())
        failed = {name: why for name, (_, why) in broken.items()}
        self._found, self._broken, self._offer = kept, broken, Offer(after, failed)
        retired = [model for _, model in before.values() if model not in after]
        for model in retired:
            await self._retire(model)
        offered = {model.name for model in after}
        return Reloaded(
            tuple(model.name for model in loaded),
            tuple(model.name for model in retired if model.name not in offered),
            failed,
        )

    async def _load_or_say_why(self, bundle: FoundBundle, retry: bool) -> LoadedModel | str:
        as_it_was, why = self._broken.get(bundle.name, (None, ""))
        if as_it_was == bundle and not retry:
            return why
        try:
            return await self._load(bundle)
        # Bundles come from outside; whatever is wrong with one is no fault of the others.
        except Exception as error:
            return _reason(bundle, error)

    def _unlisted(self, error: OSError) -> Reloaded:
        offer = self._offer if self._offer is not None else Offer()
        failed = {str(error.filename): error.strerror or str(error)}
        # Whoever looks every few seconds would otherwise fill the log with the same line.
        if failed != offer.failed:
            logger.error("the bundles cannot be listed, so the offer stands: %s", error)
        self._offer = Offer(offer.models, failed)
        return Reloaded(failed=failed)

    async def close(self) -> None:
        """Withdraw the offer and close every model. Whoever still waits for one is told so."""
        self._closed = True
        async with self._reloading:
            models = {model for _, model in self._found.values()} | self._retiring
            self._found, self._offer, self._retiring = {}, None, set()
            for model in models:
                await model.close()

    async def _retire(self, model: LoadedModel) -> None:
        self._retiring.add(model)
        await self._close_if_idle(model)

    async def _close_if_idle(self, model: LoadedModel) -> None:
        if model in self._retiring and not model.leases:
            self._retiring.remove(model)
            await model.close()


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
