"""Opens bundles without their networks, for processes that only read and write texts."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from models.bundle.bundle import Bundle, read_manifest
from models.bundle.manifest import InvalidBundle, Manifest
from service.catalogue.errors import NotReady, without_directory
from service.catalogue.loaded_model import LoadedModel, Tokenizer, Tokenizers

MOST_OPEN = 32
"""Models of which a process keeps the tokenizers open besides those of models in memory. One with
32,000 pieces takes 4.3 MiB and 21 ms to open."""


@dataclass(slots=True)
class DecodedElsewhere:
    """Stands for the engine of a model, which another process has."""

    alive: bool = True
    """``False`` once that process has refused a call for this model."""


def open_tokenizers(path: Path, name: str, version: str) -> LoadedModel:
    """The model of a bundle; raises ``InvalidBundle`` if that is not this model. Blocks."""
    bundle = Bundle.open(path)
    _require(bundle.manifest, path, name, version)
    return without_network(bundle.manifest, cast(Tokenizers, bundle.tokenizers()))


class TokenizerCache:
    """The bundles of which tokenizers were opened last. Safe to use from any thread."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._open: OrderedDict[OnDemandTokenizers, None] = OrderedDict()

    def list(self, path: Path, name: str, version: str) -> LoadedModel:
        """``open_tokenizers`` of a model whose tokenizers are opened when texts are first read."""
        manifest = read_manifest(path)
        _require(manifest, path, name, version)
        tokenizers = OnDemandTokenizers(path, manifest, self)
        model = without_network(manifest, tokenizers)
        model.open_tokenizers = tokenizers.prepare
        return model

    def used(self, tokenizers: OnDemandTokenizers) -> None:
        """Keep these open, and close those that were used least recently."""
        with self._lock:
            self._open[tokenizers] = None
            self._open.move_to_end(tokenizers)
            while len(self._open) > self._most:
                self._open.popitem(last=False)[0].close()

    def forget(self, tokenizers: OnDemandTokenizers) -> None:
        with self._lock:
            self._open.pop(tokenizers, None)


def _require(manifest: Manifest, path: Path, name: str, version: str) -> None:
    if (manifest.name, manifest.version) != (name, version):
        raise InvalidBundle(f"{path} was replaced; {name} {version} is on offer")


class OnDemandTokenizers:
    """The tokenizers of a bundle, opened when they are used. Safe to use from any thread."""

    def __init__(self, path: Path, manifest: Manifest, cache: TokenizerCache) -> None:
        self._path = path
        self._manifest = manifest
        self._cache = cache
        self._lock = threading.Lock()
        self._opened: Tokenizers | None = None
        self._loaded: Tokenizers | None = None
        """The tokenizers of the loaded model, while it is in memory."""

    @property
    def source(self) -> Tokenizer:
        return self._open().source

    @property
    def target(self) -> Tokenizer:
        return self._open().target

    async def prepare(self) -> None:
        """Open them in a thread; raises ``NotReady`` if the bundle was replaced or is broken."""
        if self._loaded is None:
            if self._opened is None:
                await asyncio.to_thread(self._open)
            self._cache.used(self)

    def loaded(self, tokenizers: Tokenizers | None) -> None:
        """Use those of the model that has been loaded; with ``None``, it has been unloaded."""
        self._loaded = tokenizers
        self._cache.forget(self)
        self.close()

    def close(self) -> None:
        """Free their memory, once no call uses them, until they are used again."""
        self._opened = None

    def _open(self) -> Tokenizers:
        """Blocks for some tens of milliseconds, unless they are open."""
        if (opened := self._loaded or self._opened) is not None:
            return opened
        with self._lock:
            if (opened := self._opened) is None:
                try:
                    # Reading compares each file with the hash in the manifest.
                    opened = cast(Tokenizers, Bundle(self._path, self._manifest).tokenizers())
                except InvalidBundle as error:
                    reason = without_directory(str(error), self._path)
                    raise NotReady(f"the model {self._manifest.name}: {reason}") from error
                self._opened = opened
                self._cache.used(self)
            return opened


def without_network(manifest: Manifest, tokenizers: Tokenizers) -> LoadedModel:
    """A model that only reads and writes texts."""
    absent = cast(Any, DecodedElsewhere())
    return LoadedModel(manifest, manifest.precisions[0], tokenizers, absent, absent, absent)
