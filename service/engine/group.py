"""The engines of one model: each sentence goes to the least loaded device.

A device has an engine for all sentences, and it may have a second one for beam searches that run
on the device, which is preferred for the sentences that it accepts.

An engine whose device is lost takes the other engines of that device with it.

A sentence that fails on one device is decoded once more on another. Each failure in a row doubles
the load of a device as counted here, so that a device that fails at once does not attract all
sentences. Its first success ends this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from service.engine.engine import Engine
from service.engine.errors import BackendFailed, EngineStopped
from service.engine.types import DEFAULT_ORIGIN, Decoded, DecodingOptions, Origin

_MOST_DOUBLINGS = 10
"""A device that failed this often in a row is tried again at a thousandth of the others' load."""


class EngineGroup:
    """Decodes sentences on several engines, which it owns. Belongs to one event loop."""

    def __init__(self, engines: Sequence[Engine], preferred: Sequence[Engine] = ()) -> None:
        """``preferred`` are used for what they accept; ``engines`` decode any sentence."""
        if not engines:
            raise ValueError("a group needs an engine")
        self._general, self._preferred = tuple(engines), tuple(preferred)
        self._engines = (*self._preferred, *self._general)
        self._failures = dict.fromkeys(self._engines, 0)
        """Failures in a row, by engine."""
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether an engine decodes any sentence."""
        return bool(self._usable(self._general))

    @property
    def complete(self) -> bool:
        """Whether every device has such an engine."""
        return len(self._usable(self._general)) == len(self._general)

    @property
    def lost(self) -> bool:
        """Whether no engine is left because of lost devices, which only a restart brings back."""
        return not self.alive and any(engine.lost for engine in self._engines)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that decode, as metrics name them."""
        return tuple(engine.device for engine in self._usable(self._general))

    async def start(self) -> None:
        await asyncio.gather(*(engine.start() for engine in self._engines))

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        origin: Origin = DEFAULT_ORIGIN,
    ) -> Decoded:
        """Decode a sentence on one of the engines, on a second one if that fails.

        Arguments and errors are those of ``Engine.decode``. Raises the error of the second engine
        if two have failed.
        """
        fitting = self._fitting(options)
        first = self._least_loaded(fitting)
        try:
            return await self._counted(first, first.decode(source_ids, options, origin))
        except (BackendFailed, EngineStopped):
            others = [e for e in self._usable({*fitting, *self._general}) if e is not first]
            if self._closed or not others:
                raise
        second = self._least_loaded(others)
        return await self._counted(second, second.decode(source_ids, options, origin))

    async def _counted(self, engine: Engine, decoding: Awaitable[Decoded]) -> Decoded:
        """The result of a decoding, whose failure or success counts for its engine."""
        try:
            decoded = await decoding
        except BackendFailed:
            self._failures[engine] = min(self._failures[engine] + 1, _MOST_DOUBLINGS)
            raise
        self._failures[engine] = 0
        return decoded

    def _usable(self, engines: Iterable[Engine]) -> list[Engine]:
        lost = {each.device for each in self._engines if each.lost}
        return [each for each in engines if each.alive and each.device not in lost]

    def _fitting(self, options: DecodingOptions) -> Sequence[Engine]:
        usable = self._usable(self._engines)
        preferred = [e for e in usable if e in self._preferred and e.accepts(options)]
        return preferred or [e for e in usable if e in self._general] or self._general

    def _least_loaded(self, engines: Sequence[Engine]) -> Engine:
        return min(engines, key=lambda e: (e.load + 1) * 2 ** self._failures[e])

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Pause decoding on every engine while a group of sentences is queued."""
        with ExitStack() as stack:
            for engine in self._engines:
                stack.enter_context(engine.gathering())
            yield

    async def close(self) -> None:
        """Stop every engine. Pending ``decode`` calls raise ``EngineStopped``."""
        self._closed = True
        await asyncio.gather(*(engine.close() for engine in self._engines))
