"""Store of API keys and their limits; keeps only SHA-256 digests. Independent of requests."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from service.state.database import Database
from service.state.errors import KeyRefused

_PREFIX = "drg_"
_RANDOM_BYTES = 32
_VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VALID_KEY = re.compile(r"[!-~]{1,200}")
_LARGEST_LIMIT = 2**53
_TRUSTED_SECONDS = 1.0
"""How long the keys are cached before they are read from the database again."""


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
        self._believed_until = -math.inf
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
        row = (name, _digest(key), requests_per_minute, characters_per_month, _now())
        await self._database.write(lambda connection: _insert(connection, row))
        self._believed_until = -math.inf
        return key

    async def remove(self, name: str) -> None:
        """Revoke a key; raises ``KeyRefused`` if there is none of this name."""
        statement = "DELETE FROM api_keys WHERE name = ?"
        removed = await self._database.write(
            lambda connection: connection.execute(statement, (name,)).rowcount
        )
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
                self._keys = {known.digest: known for known in await self.all()}
                self._believed_until = believed_until
            return self._keys


def _insert(
    connection: sqlite3.Connection, row: tuple[str, bytes, int | None, int | None, str]
) -> None:
    name, digest, *_ = row
    for known in _select(connection):
        if known.name == name:
            raise KeyRefused(f"there is a key named {name!r} already; remove it first")
        if known.digest == digest:
            raise KeyRefused(f"this key is that of {known.name!r} already; choose another")
    connection.execute("INSERT INTO api_keys VALUES (?, ?, ?, ?, ?)", row)


def _select(connection: sqlite3.Connection) -> tuple[ApiKey, ...]:
    rows = connection.execute(
        "SELECT name, digest, requests_per_minute, characters_per_month, created "
        "FROM api_keys ORDER BY name"
    )
    return tuple(
        ApiKey(name, digest, requests, characters, datetime.fromisoformat(created))
        for name, digest, requests, characters, created in rows
    )


def _digest(key: str) -> bytes:
    # A caller may send a lone surrogate: it matches no key and must not raise.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
