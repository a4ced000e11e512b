"""Recent translations by id, kept by this replica and, with Valkey or Redis, for all replicas."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from service.catalogue.shared_results import SharedMemory
from service.inspection.translation_store import TranslationStore, UnknownTranslation
from service.translation.types import Translation

logger = logging.getLogger(__name__)

_SECONDS = 3600
"""How long replicas share a translation at most; the server may evict it before."""
_MOST_BYTES = 1 << 20
"""Greatest shared translation, packed; larger ones are known to this replica only."""
_IDS = re.compile(r"[0-9a-f]{32}")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Translation, ...])


class KeptTranslations:
    """Translations of the ``local`` store, and those that other replicas have shared."""

    def __init__(self, local: TranslationStore, shared: SharedMemory | None = None) -> None:
        self._local = local
        self._shared = shared

    async def put(self, translations: Sequence[Translation], scope: str = "") -> str:
        """See ``TranslationStore.put``. The id is known to all replicas when this returns."""
        translation_id = self._local.put(translations, scope)
        if self._shared is not None:
            packed = await asyncio.to_thread(_pack, translations)
            if len(packed) <= _MOST_BYTES:
                await self._shared.put(_key(translation_id, scope), packed, _SECONDS)
        return translation_id

    async def get(self, translation_id: str, scope: str = "") -> tuple[Translation, ...]:
        """The translations with an id in a scope; raises ``UnknownTranslation``."""
        try:
            return self._local.get(translation_id, scope)
        except UnknownTranslation:
            packed = None
            if self._shared is not None and _IDS.fullmatch(translation_id):
                packed = await self._shared.get(_key(translation_id, scope))
            kept = None if packed is None else await asyncio.to_thread(_unpack, packed)
            if kept is None:
                raise
            return kept


def _key(translation_id: str, scope: str) -> str:
    digest = hashlib.sha256(scope.encode()).hexdigest()
    return f"dragoman/translations/{digest}/{translation_id}"


def _pack(translations: Sequence[Translation]) -> bytes:
    """Leaves out confidences, as ``TranslationStore`` does."""
    kept = [replace(each, confidences=None) for each in translations]
    return zlib.compress(_encoder.encode(kept), level=1)


def _unpack(packed: bytes) -> tuple[Translation, ...] | None:
    try:
        return _decoder.decode(zlib.decompress(packed))
    except msgspec.DecodeError as error:
        # During an update, a replica with another version of the service may have written it.
        logger.info("a kept translation of another replica cannot be read: %s", error)
        return None
