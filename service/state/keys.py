"""Store of API keys and their limits; keeps only SHA-256 digests. Independent of requests."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select

from service.state.database import Database
from service.state.errors import KeyRefused, StateFailed
from service.state.revisions import bump, revision_of
from service.state.schema import API_KEYS

_PREFIX = "drg_"
_RANDOM_BYTES = 32
_VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VALID_KEY = re.compile(r"[!-~]{1,200}")
_LARGEST_LIMIT = 2**53
_TRUSTED_SECONDS = 1.0
"""How long the keys are cached before the database is asked for a later revision of them."""
_TRUSTED_WITHOUT_DATABASE = 900.0
"""How long the cached keys are valid while the database cannot be read."""
_RETRY_SECONDS = 5.0
"""Pause between attempts to read it, because an attempt may wait for a connection."""
_CHANGES = "keys"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A named key. A limit of 0 is unlimited; ``None`` is the service's default."""

    name: str
    digest: bytes = field(repr=False)
    """SHA-256 of the key; the key itself is not stored."""
    requests_per_minute: int | None
    characters_per_month: int | None
    created: datetime


class KeyStore:
    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._keys: dict[bytes, ApiKey] = {}
        """Keys by digest. Callers cannot choose digests: the time of a lookup reveals nothing."""
        self._revision = -1
        self._believed_until = -math.inf
        self._confirmed = -math.inf
        self._reading = asyncio.Lock()

    async def find(self, key: str) -> ApiKey | None:
        """The stored key that matches, if any. Sees changes by other processes after one second."""
        return (await self._known()).get(_digest(key))

    async def add(
        self,
        name: str,
        key: str | None = None,
        *,
        requests_per_minute: int | None = None,
        characters_per_month: int | None = None,
    ) -> str:
        """Store ``key``, or a random one, and return it; raises ``KeyRefused``."""
        if not _VALID_NAME.fullmatch(name):
            raise KeyRefused(
                f"{name!r} is no name for a key; use at most 64 letters, digits, dots, dashes and "
                "underscores, beginning with a letter or a digit"
            )
        if key is None:
            key = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        if not _VALID_KEY.fullmatch(key):
            raise KeyRefused(
                "a key has at most 200 characters, all of them printable ASCII and none of them "
                "blank, since it travels in a header"
            )
        for limit in (requests_per_minute, characters_per_month):
            if limit is not None and not 0 <= limit <= _LARGEST_LIMIT:
                raise KeyRefused(f"{limit} is no limit; 0 is unlimited, {_LARGEST_LIMIT} the most")
        found = ApiKey(
            name, _digest(key), requests_per_minute, characters_per_month, datetime.now(UTC)
        )
        await self._database.write(lambda connection: _insert(connection, found), _CHANGES)
        self._believed_until = -math.inf
        return key

    async def remove(self, name: str) -> None:
        """Revoke a key; raises ``KeyRefused`` if there is none of this name."""

        def remove(connection: Connection) -> int:
            bump(connection, _CHANGES)
            return connection.execute(delete(API_KEYS).where(API_KEYS.c.name == name)).rowcount

        removed = await self._database.write(remove, _CHANGES)
        self._believed_until = -math.inf
        if not removed:
            raise KeyRefused(f"there is no key named {name!r}; see `dragoman keys list`")

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, by name."""
        return await self._database.read(_select)

    async def _known(self) -> dict[bytes, ApiKey]:
        async with self._reading:
            if self._clock() >= self._believed_until:
                believed_until = self._clock() + _TRUSTED_SECONDS
                try:
                    await self._read_again()
                except StateFailed:
                    if self._clock() >= self._confirmed + _TRUSTED_WITHOUT_DATABASE:
                        raise
                    believed_until = self._clock() + _RETRY_SECONDS
                self._believed_until = believed_until
            return self._keys

    async def _read_again(self) -> None:
        """Read the keys, unless their revision is that of the cached ones."""
        now = self._clock()
        known = self._revision

        def read(connection: Connection) -> tuple[int, dict[bytes, ApiKey] | None]:
            revision = revision_of(connection, _CHANGES)
            if revision == known:
                return revision, None
            return revision, {key.digest: key for key in _select(connection)}

        self._revision, changed = await self._database.read(read)
        if changed is not None:
            self._keys = changed
        self._confirmed = now


def _insert(connection: Connection, key: ApiKey) -> None:
    for known in _select(connection):
        if known.name == key.name:
            raise KeyRefused(f"there is a key named {key.name!r} already; remove it first")
        if known.digest == key.digest:
            raise KeyRefused(f"this key is that of {known.name!r} already; choose another")
    bump(connection, _CHANGES)
    created = key.created.isoformat(timespec="microseconds")
    limits = key.requests_per_minute, key.characters_per_month
    connection.execute(insert(API_KEYS).values((key.name, key.digest, *limits, created)))


def _select(connection: Connection) -> tuple[ApiKey, ...]:
    found = (
        ApiKey(name, digest, requests, characters, datetime.fromisoformat(created))
        for name, digest, requests, characters, created in connection.execute(select(API_KEYS))
    )
    # Not by the database, whose order depends on its locale.
    return tuple(sorted(found, key=lambda key: key.name))


def _digest(key: str) -> bytes:
    # A caller may send a lone surrogate: it matches no key and must not raise.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
