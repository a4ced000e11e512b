"""Recent results of a model in memory that all replicas share.

A replica asks it before it decodes a sentence that its own cache does not have, and tells it
afterwards. The memory may lose everything. Event loop only.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import msgspec

from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle
from service.catalogue.result_cache import Decode
from service.engine.types import Decoded, DecodingOptions, Durations, Origin

logger = logging.getLogger(__name__)

_SECONDS = 3600
"""How long a result is kept at most; the server may evict it before."""
_MOST_BYTES = 1 << 16
"""Greatest shared result, packed."""
_AT_A_TIME = 16
"""Questions to the memory in flight, so that a long text leaves connections to other requests."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Decoded)


class SharedMemory(Protocol):
    """Memory that all replicas read and write, while it can be reached; see ``RedisServer``."""

    async def put(self, key: str, value: bytes, seconds: int) -> None: ...

    async def get(self, key: str) -> bytes | None: ...


class SharedResults:
    """Wraps the ``decode`` of a model's engines."""

    def __init__(
        self, decode: Decode, model: LoadedModel, memory: SharedMemory, turns: asyncio.Semaphore
    ) -> None:
        self._decode = decode
        self._memory = memory
        self._turns = turns
        self._model = model.name, model.manifest.version, model.precision

    async def decode(
        self, source_ids: tuple[int, ...], options: DecodingOptions, origin: Origin
    ) -> Decoded:
        """The result of another replica, with durations of 0, or a result for all replicas."""
        if not _lasting(options):
            return await self._decode(source_ids, options, origin)
        question = (self._model, origin.scope, source_ids, options)
        # The key has nothing that its reader could read, such as the name of a caller.
        key = f"dragoman/results/{hashlib.sha256(_encoder.encode(question)).hexdigest()}"
        async with self._turns:
            packed = await self._memory.get(key)
        if packed is not None:
            try:
                return _decoder.decode(packed)
            except msgspec.DecodeError as error:
                # During an update, a replica with another version of the service may have put it.
                logger.info("a result of another replica cannot be read: %s", error)
        decoded = await self._decode(source_ids, options, origin)
        packed = _encoder.encode(replace(decoded, durations=Durations()))
        if len(packed) <= _MOST_BYTES:
            async with self._turns:
                await self._memory.put(key, packed, _SECONDS)
        return decoded


def sharing(
    load: Callable[[FoundBundle], Awaitable[LoadedModel]], memory: SharedMemory
) -> Callable[[FoundBundle], Awaitable[LoadedModel]]:
    """Wraps ``load`` in a loader of models that share their results."""
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def loader(bundle: FoundBundle) -> LoadedModel:
        model = await load(bundle)
        model.results.decode_through(
            lambda decode: SharedResults(decode, model, memory, turns).decode
        )
        return model

    return loader


def _lasting(options: DecodingOptions) -> bool:
    """Whether the same options give the same small result again, and the same packed key."""
    varied = options.samples or options.recorded
    return not (varied or options.completions or options.alternative_words)
