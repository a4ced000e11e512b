"""Store of API keys and their limits; keeps only SHA-256 digests. Independent of requests.

A name has one or more keys, so that another one can be handed out before the old one ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from models.bundle.languages import canonical
from service.state.database import Database
from service.state.errors import KeyNotFound, KeyRefused, KeyTaken, shortened
from service.state.revisions import bump, revision_of
from service.state.schema import API_KEYS, KEY_SECRETS

T = TypeVar("T")

_PREFIX = "drg_"
_RANDOM_BYTES = 32
KEY_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Regular expression of the names of keys."""
_VALID_NAME = re.compile(KEY_NAME)
_VALID_KEY = re.compile(r"[!-~]{1,200}")
_VALID_MODEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
LARGEST_LIMIT = 2**53
MOST_PERMITTED = 100
"""Models of a key, and languages."""
_MOST_PARTS = 8
"""Subtags of two codes that are tried."""
_MOST_SECRETS = 10
"""Keys of one name."""
_TRUSTED_SECONDS = 1.0
"""How long the keys are cached before the database is asked for a later revision of them."""
_TRUSTED_WITHOUT_DATABASE = 900.0
"""How long the cached keys are valid while the database cannot be read."""
_RETRY_SECONDS = 5.0
"""Pause between attempts to read it, because an attempt may wait for a connection."""
_PATIENCE_SECONDS = 1.0
"""How long requests wait for the keys to be read while the cached ones are valid."""
_CHANGES = "keys"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that a holder may send as the key, valid until ``expires``."""

    digest: bytes = field(repr=False)
    """SHA-256 of the value, which is not stored."""
    created: datetime
    expires: datetime | None

    def is_valid(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a holder's use. A number of 0 is unlimited; ``None`` is the service's default."""

    requests_per_minute: int | None = None
    characters_per_month: int | None = None
    bulk: bool = False
    """Whether every request waits behind those of other holders."""
    models: tuple[str, ...] = ()
    """Names of the only models that may be used; all if there are none."""
    languages: tuple[str, ...] = ()
    """The only languages that may be used: codes, and pairs such as ``de-en``; all if there are
    none."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A named holder, which may have several secrets while one replaces another."""

    name: str
    limits: Limits
    created: datetime
    secrets: tuple[Secret, ...]
    """Sorted by age; those that have expired stay until another one is added."""


class KeyStore:
    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``now`` is the time by which secrets expire."""
        self._database = database
        self._clock = clock
        self._now = now
        self._keys: dict[bytes, tuple[ApiKey, Secret]] = {}
        """Keys by digest. Callers cannot choose digests: the time of a lookup reveals nothing."""
        self._revision = -1
        self._believed_until = -math.inf
        self._confirmed = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key: str) -> ApiKey | None:
        """The holder of a valid key, if any. Sees changes by other processes after one second."""
        found = (await self._known()).get(_digest(key))
        return found[0] if found is not None and found[1].is_valid(self._now()) else None

    async def add(
        self,
        name: str,
        key: str | None = None,
        limits: Limits | None = None,
        expires: datetime | None = None,
    ) -> str:
        """Store ``key``, or a random one, for a name, and return it.

        Raises ``KeyRefused`` for an invalid value, ``KeyTaken`` for one that is in use.
        """
        if not _VALID_NAME.fullmatch(name):
            raise KeyRefused(
                f"{name!r} is no name for a key; use at most 64 letters, digits, dots, dashes and "
                "underscores, beginning with a letter or a digit"
            )
        limits = limits or Limits()
        _check(limits)
        value, secret = self._new(key, expires)

        def write(connection: Connection) -> None:
            if connection.execute(select(API_KEYS.c.name).where(_is(name))).first():
                raise KeyTaken(f"there is a key named {name!r} already; rotate, limit or remove it")
            created = _written(secret.created)
            row = {"name": name, "created": created, **_row_of(limits)}
            connection.execute(insert(API_KEYS).values(row))
            _insert(connection, name, secret)

        await self._change(write)
        return value

    async def rotate(
        self,
        name: str,
        key: str | None = None,
        *,
        old_expire: datetime | None = None,
        expires: datetime | None = None,
    ) -> str:
        """Store another key of a name, and return it; the older ones expire at ``old_expire``.

        ``None`` is now. Raises ``KeyRefused``, ``KeyTaken`` or ``KeyNotFound``.
        """
        value, secret = self._new(key, expires)
        end = _written(old_expire or secret.created)
        columns = KEY_SECRETS.c
        older = and_(columns.name == name, or_(columns.expires.is_(None), columns.expires > end))

        def write(connection: Connection) -> None:
            _require(connection, name)
            expired = columns.expires <= _written(self._now())
            connection.execute(delete(KEY_SECRETS).where(columns.name == name, expired))
            connection.execute(update(KEY_SECRETS).where(older).values(expires=end))
            _insert(connection, name, secret)

        await self._change(write)
        return value

    async def limit(self, name: str, change: Callable[[Limits], Limits]) -> None:
        """``change`` the limits of a name; raises ``KeyRefused`` or ``KeyNotFound``."""

        def write(connection: Connection) -> None:
            limits = change(_read_limits(_require(connection, name)))
            _check(limits)
            connection.execute(update(API_KEYS).where(_is(name)).values(_row_of(limits)))

        await self._change(write)

    async def remove(self, name: str) -> None:
        """Revoke all keys of a name; raises ``KeyNotFound`` if there are none."""

        def write(connection: Connection) -> None:
            _require(connection, name)
            connection.execute(delete(API_KEYS).where(_is(name)))

        await self._change(write)

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, by name."""
        return await self._database.read(_select)

    def _new(self, key: str | None, expires: datetime | None) -> tuple[str, Secret]:
        """``key``, or a random one, and what is stored of it; raises ``KeyRefused``."""
        if key is None:
            key = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        if not _VALID_KEY.fullmatch(key):
            raise KeyRefused(
                "a key has at most 200 characters, all of them printable ASCII and none of them "
                "blank, since it travels in a header"
            )
        now = self._now()
        if expires is not None and expires <= now:
            raise KeyRefused(f"{expires.isoformat()} has passed; a key expires later than now")
        return key, Secret(_digest(key), now, expires)

    async def _change(self, work: Callable[[Connection], T]) -> T:
        """Write, and let all processes read the keys again."""

        def write(connection: Connection) -> T:
            done = work(connection)
            bump(connection, _CHANGES)
            return done

        done = await self._database.write(write, _CHANGES)
        self._believed_until = -math.inf
        # A reading that has begun may not know the change.
        self._reading = None
        return done

    async def _known(self) -> dict[bytes, tuple[ApiKey, Secret]]:
        while self._clock() >= self._believed_until:
            # One task, which all requests share, so that one that is cancelled ends nothing.
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_again())
                self._reading.add_done_callback(_heed)
            reading = self._reading
            trusted = self._clock() < self._confirmed + _TRUSTED_WITHOUT_DATABASE
            # A database may be silent for as long as its disk.
            await asyncio.wait([reading], timeout=_PATIENCE_SECONDS if trusted else None)
            if not trusted:
                await asyncio.shield(reading)
            elif not reading.done() or reading.exception() is not None:
                self._believed_until = self._clock() + _RETRY_SECONDS
            if self._reading is reading:
                break
        return self._keys

    async def _read_again(self) -> None:
        """Read the keys, unless their revision is that of the cached ones."""
        now = self._clock()
        known = self._revision

        def read(connection: Connection) -> tuple[int, dict[bytes, tuple[ApiKey, Secret]] | None]:
            revision = revision_of(connection, _CHANGES)
            if revision == known:
                return revision, None
            keys = _select(connection)
            return revision, {each.digest: (key, each) for key in keys for each in key.secrets}

        revision, changed = await self._database.read(read)
        if self._reading is not asyncio.current_task():
            return
        self._revision = revision
        if changed is not None:
            self._keys = changed
        self._confirmed = now
        self._believed_until = now + _TRUSTED_SECONDS


def _heed(reading: asyncio.Task[None]) -> None:
    """Retrieve a failure that no request has waited for; the database has logged it."""
    if not reading.cancelled():
        reading.exception()


def _check(limits: Limits) -> None:
    for limit in (limits.requests_per_minute, limits.characters_per_month):
        if limit is not None and not 0 <= limit <= LARGEST_LIMIT:
            raise KeyRefused(f"{limit} is no limit; 0 is unlimited, {LARGEST_LIMIT} the most")
    check_permitted(limits)


def check_permitted(limits: Limits) -> None:
    """Raises ``KeyRefused`` unless ``limits`` names models and languages as keys may."""
    for name in limits.models:
        if not _VALID_MODEL.fullmatch(name):
            raise KeyRefused(f"{shortened(name)!r} is no name of a model; see GET /models")
    for name in limits.languages:
        if not _names_languages(name):
            raise KeyRefused(
                f"{shortened(name)!r} is neither the code of a language, such as de, nor a pair, "
                "such as de-en; see GET /languages"
            )
    if len(codes := [name for name in limits.languages if _is_canonical(name)]) == 1:
        raise KeyRefused(
            f"{codes[0]} permits no pair by itself; add the other language, or name pairs, such as "
            "de-en"
        )
    for names in (limits.models, limits.languages):
        if len(names) > MOST_PERMITTED:
            raise KeyRefused(f"{len(names)} names are too many; a key has at most {MOST_PERMITTED}")


def _names_languages(name: str) -> bool:
    """Whether a name is a canonical code, or two with a dash between them. Codes have dashes."""
    parts = name.split("-")
    places = range(1, min(len(parts), _MOST_PARTS))
    pairs = [("-".join(parts[:place]), "-".join(parts[place:])) for place in places]
    return any(all(map(_is_canonical, codes)) for codes in [(name,), *pairs])


def _is_canonical(code: str) -> bool:
    try:
        return canonical(code) == code
    except ValueError:
        return False


def _row_of(limits: Limits) -> dict[str, Any]:
    lists = {"models": limits.models, "languages": limits.languages}
    return {
        **asdict(limits),
        **{name: json.dumps(each) if each else None for name, each in lists.items()},
    }


def _read_limits(row: Row[Any]) -> Limits:
    """The inverse of ``_row_of``."""
    return Limits(
        row.requests_per_minute,
        row.characters_per_month,
        row.bulk,
        tuple(json.loads(row.models or "[]")),
        tuple(json.loads(row.languages or "[]")),
    )


def _is(name: str) -> ColumnElement[bool]:
    return API_KEYS.c.name == name


def _require(connection: Connection, name: str) -> Row[Any]:
    """The row of a name; raises ``KeyNotFound``."""
    # PostgreSQL refuses texts with U+0000, which is in no valid name.
    if not _VALID_NAME.fullmatch(name):
        raise KeyNotFound(name)
    found = connection.execute(select(API_KEYS).where(_is(name))).first()
    if found is None:
        raise KeyNotFound(name)
    return found


def _insert(connection: Connection, name: str, secret: Secret) -> None:
    columns = KEY_SECRETS.c
    holder = select(columns.name).where(columns.digest == secret.digest)
    if (other := connection.execute(holder).scalar()) is not None:
        raise KeyTaken(f"this key is that of {other!r} already; choose another")
    valid = or_(columns.expires.is_(None), columns.expires > _written(secret.created))
    number = select(func.count()).select_from(KEY_SECRETS).where(columns.name == name, valid)
    if connection.execute(number).scalar_one() >= _MOST_SECRETS:
        raise KeyRefused(
            f"{name!r} has {_MOST_SECRETS} keys that have not expired; let some of them expire "
            "first, or remove the name"
        )
    row = {
        "digest": secret.digest,
        "name": name,
        "created": _written(secret.created),
        "expires": None if secret.expires is None else _written(secret.expires),
    }
    connection.execute(insert(KEY_SECRETS).values(row))


def _select(connection: Connection) -> tuple[ApiKey, ...]:
    by_name: dict[str, list[Secret]] = {}
    ordered = select(KEY_SECRETS).order_by(KEY_SECRETS.c.created, KEY_SECRETS.c.digest)
    for row in connection.execute(ordered):
        expires = None if row.expires is None else datetime.fromisoformat(row.expires)
        secret = Secret(row.digest, datetime.fromisoformat(row.created), expires)
        by_name.setdefault(row.name, []).append(secret)
    found = (
        ApiKey(
            row.name,
            _read_limits(row),
            datetime.fromisoformat(row.created),
            tuple(by_name.get(row.name, ())),
        )
        for row in connection.execute(select(API_KEYS))
    )
    # Not by the database, whose order depends on its locale.
    return tuple(sorted(found, key=lambda key: key.name))


def _written(time: datetime) -> str:
    """A time as text that sorts as the times do; raises ``KeyRefused``."""
    try:
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError as error:
        raise KeyRefused(f"{time.isoformat()} is beyond the end of the calendar in UTC") from error


def _digest(key: str) -> bytes:
    # A caller may send a lone surrogate: it matches no key and must not raise.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
