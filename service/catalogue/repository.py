"""Loads, replaces and retires models, and counts the leases of those in use.

``reload`` makes the catalogue equal to the bundles that are found. If a bundle cannot be loaded,
the reason is kept and the model already on offer under its name stays. The catalogue changes in one
assignment, after all its models have been loaded and verified. Requests in progress keep their
model; a retired model closes when its last lease ends. The assignment and the lease counts need no
lock, because they happen on the event loop between awaits. Reloads run one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from models.bundle.manifest import InvalidBundle
from service.catalogue.catalogue import NO_PREFERENCE, Catalogue, Preference, Route
from service.catalogue.errors import ModelReplaced, NotReady, without_directory
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.permission import Permission
from service.text.types import LanguagePair

logger = logging.getLogger(__name__)


Stamp = tuple[tuple[str, int, int, int], ...]
"""Each file's name, inode, time of its last change in nanoseconds, and size in bytes."""


@dataclass(frozen=True, slots=True)
class FoundBundle:
    """A bundle directory as last listed; ``stamp`` changes if any of its files changes."""

    name: str
    path: Path
    stamp: Stamp = ()
    model: str | None = None
    """The name in its manifest, if that can be read."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Outcome of a reload, by model names; ``failed`` maps bundle directories to reasons."""

    loaded: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    """Names whose model was withdrawn without a replacement."""
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.loaded or self.retired)


Discover = Callable[[], Iterable[FoundBundle]]
Loader = Callable[[FoundBundle], Awaitable[LoadedModel]]


class ModelRepository:
    def __init__(
        self, discover: Discover, load: Loader, preference: Preference = NO_PREFERENCE
    ) -> None:
        self._discover = discover
        self._load = load
        self._preference = preference
        self._reloading = asyncio.Lock()
        self._catalogue: Catalogue | None = None
        self._found: Mapping[str, tuple[FoundBundle, LoadedModel]] = {}
        self._broken: Mapping[str, tuple[FoundBundle, str]] = {}
        """Bundles that could not be loaded, as they were listed then, and why."""
        self._retiring: set[LoadedModel] = set()
        self._closed = False
        self._observers: list[Callable[[], None]] = []

    @property
    def catalogue(self) -> Catalogue:
        """The current catalogue; raises ``NotReady`` if it has no model."""
        if self._closed:
            raise NotReady("the service is shutting down")
        if self._catalogue is None:
            raise NotReady("the models are being loaded")
        if not self._catalogue.models:
            broken = "; ".join(f"{name}: {why}" for name, why in self._catalogue.failed.items())
            none = "there is no bundle; its operator adds one with `dragoman models add de-en`"
            raise NotReady(f"no model is on offer: {broken or none}")
        return self._catalogue

    @property
    def failed(self) -> Mapping[str, str]:
        """Bundles that were found and could not be loaded, and why."""
        return self._catalogue.failed if self._catalogue is not None else {}

    @property
    def stopped(self) -> tuple[str, ...]:
        """Models on offer whose engine has stopped; only a restart or reload restores them."""
        models = self._catalogue.models if self._catalogue is not None else ()
        return tuple(model.name for model in models if not model.engine.alive)

    @asynccontextmanager
    async def lease(
        self, pair: LanguagePair, name: str | None = None, permission: Permission | None = None
    ) -> AsyncIterator[Route]:
        """The route of a pair. Its models stay loaded until the lease ends.

        See ``Catalogue.route``.
        """
        route = self.catalogue.route(pair, name, permission)
        # Both directions of a pivot route may belong to one model.
        async with self.held([directed.model for directed in route]):
            for directed in route:
                await directed.model.open_tokenizers()
            yield route

    def lease_until_closed(self, stack: AsyncExitStack, model: LoadedModel) -> None:
        """Lease a model at once, until the stack is closed.

        Raises ``ModelReplaced`` for a model that is neither on offer nor leased, which is closed.
        """
        offered = self._catalogue.models if self._catalogue is not None else ()
        if model not in offered and model not in self._retiring:
            raise ModelReplaced(model.name)
        self._hold([model], stack)

    def held(self, models: Sequence[LoadedModel]) -> AsyncExitStack:
        """A lease of these models, which begins at once and ends when the stack is closed."""
        stack = AsyncExitStack()
        self._hold(models, stack)
        return stack

    def _hold(self, models: Sequence[LoadedModel], stack: AsyncExitStack) -> None:
        for model in models:
            model.leases += 1
        stack.push_async_callback(self._give_back, models)

    async def _give_back(self, models: Sequence[LoadedModel]) -> None:
        for model in models:
            model.leases -= 1
        for model in models:
            await self._close_if_idle(model)

    def watch(self, observer: Callable[[], None]) -> None:
        """Call ``observer`` after each change of the catalogue, until ``unwatch``."""
        self._observers.append(observer)

    def unwatch(self, observer: Callable[[], None]) -> None:
        self._observers.remove(observer)

    def bundles(self) -> list[tuple[LoadedModel, Path]]:
        """The models on offer, and the paths of their bundles."""
        return [(model, bundle.path) for bundle, model in self._found.values()]

    async def reload(self, *, retry: bool = True) -> Reloaded:
        """Load new and changed bundles and retire removed ones.

        A model whose new bundle cannot be loaded stays. Without ``retry``, a bundle that could not
        be loaded is skipped until its files change, and so is a model that has lost some of its
        devices; a model that has lost all of them is loaded again.
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
        doubled: dict[str, str] = {}
        owners: dict[str, str] = {}
        """The directory of each model on offer."""
        try:
            # A model that is on offer keeps its name, also beside a copy that is still being made.
            for bundle in sorted(found, key=lambda each: (each.name not in before, each.name)):
                other = owners.get(bundle.model or "")
                if other is not None:
                    doubled[bundle.name] = self._doubled(bundle, other)
                    continue
                offered = before.get(bundle.name)
                if offered is None or not _unchanged(bundle, *offered, complete=retry):
                    outcome = await self._load_or_say_why(bundle, retry)
                    if isinstance(outcome, LoadedModel):
                        loaded.append(outcome)
                        offered = (bundle, outcome)
                    else:
                        broken[bundle.name] = (bundle, outcome)
                if offered is not None:
                    kept[bundle.name] = offered
                    owners[offered[1].name] = bundle.name
        except BaseException:
            for model in loaded:
                await model.close()
            raise
        kept = dict(sorted(kept.items()))
        after = tuple(model for _, model in kept.values())
        failed = {name: why for name, (_, why) in broken.items()} | doubled
        self._found, self._broken = kept, broken
        self._catalogue = Catalogue(after, failed, self._preference)
        if loaded or kept.keys() != before.keys():
            for observer in self._observers:
                observer()
        retired = [model for _, model in before.values() if model not in after]
        for model in retired:
            await self._retire(model)
        return Reloaded(
            tuple(model.name for model in loaded),
            tuple(model.name for model in retired if model.name not in owners),
            failed,
        )

    async def _load_or_say_why(self, bundle: FoundBundle, retry: bool) -> LoadedModel | str:
        as_it_was, why = self._broken.get(bundle.name, (None, ""))
        if as_it_was == bundle and not retry:
            return why
        try:
            return await self._load(bundle)
        # Bundles are external input: an error in one must not affect the other models.
        except Exception as error:
            return _reason(bundle, error)

    def _doubled(self, bundle: FoundBundle, other: str) -> str:
        why = f"its model {bundle.model} is that of the bundle {other}; remove one of them"
        # Log once, because polling would repeat the line every few seconds.
        if self.failed.get(bundle.name) != why:
            logger.error("bundle %s is not offered: %s", bundle.name, why)
        return why

    def _unlisted(self, error: OSError) -> Reloaded:
        catalogue = self._catalogue if self._catalogue is not None else Catalogue()
        failed = {Path(str(error.filename)).name: error.strerror or str(error)}
        # Log once, because polling would repeat the line every few seconds.
        if failed != catalogue.failed:
            logger.error("the bundles cannot be listed, so the catalogue stays: %s", error)
        self._catalogue = Catalogue(catalogue.models, failed, self._preference)
        return Reloaded(failed=failed)

    async def close(self) -> None:
        """Withdraw the catalogue and close every model; pending calls fail."""
        self._closed = True
        async with self._reloading:
            models = {model for _, model in self._found.values()} | self._retiring
            self._found, self._catalogue, self._retiring = {}, None, set()
            for model in models:
                await model.close()

    async def _retire(self, model: LoadedModel) -> None:
        self._retiring.add(model)
        await self._close_if_idle(model)

    async def _close_if_idle(self, model: LoadedModel) -> None:
        if model in self._retiring and not model.leases:
            self._retiring.remove(model)
            await model.close()


def _unchanged(
    bundle: FoundBundle, offered: FoundBundle, model: LoadedModel, *, complete: bool
) -> bool:
    engine = model.engine
    return bundle == offered and (engine.complete if complete else engine.alive)


def _reason(bundle: FoundBundle, error: Exception) -> str:
    """The reason for clients; the log has the directories, too."""
    expected = isinstance(error, InvalidBundle | OSError)
    logger.error("bundle %s is not offered: %s", bundle.name, error, exc_info=not expected)
    reason = str(error) if expected else f"{type(error).__name__}: {error}"
    return without_directory(reason, bundle.path)
