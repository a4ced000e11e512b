"""Identifies callers by API key, access token or address, and applies rate limits and quotas.

Independent of the wire format: a key comes in a header, or in a field that the dialect has read.
The server reports a caller's address; behind a proxy, the server must be configured to trust it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

from pydantic import SecretStr
from starlette.requests import HTTPConnection

from service.api.errors import AdminRefused, KeyInvalid, KeyMissing
from service.api.middleware import note_caller
from service.catalogue.permission import Permission
from service.engine.types import Origin, Priority
from service.state.keys import KeyStore, Limits
from service.state.shared_rates import SharedRateLimits
from service.state.usage import Booking, Charge, Usage, UsageLedger

_SCHEMES = ("deepl-auth-key", "bearer")
_KEY_HEADERS = ("x-api-key", "x-goog-api-key")
_IPV6_PREFIX = 64
"""Length of the network prefix of one household, which chooses the remaining bits."""
_MOST_HOSTS = 1024
"""Size of the cache of parsed addresses."""
_LONGEST_HOST = 64
"""Characters kept of a host that is not an IP address, as some proxies report."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Access settings of the operator; a limit of 0 means unlimited."""

    keys: Literal["off", "optional", "required"] = "off"
    key_link: str = ""
    admin_key: SecretStr = field(default_factory=lambda: SecretStr(""))
    requests_per_minute: int = 0
    """Requests per minute of a key without its own limit, of a token's subject, and of an address
    without a key."""
    characters_per_month: int = 0
    """Characters per month of a key without its own quota, and of a token's subject."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Sender of a request and the limits in force for it; 0 means unlimited."""

    name: str | None
    """Name of the key or of the token's subject; ``None`` without either."""
    counted_as: str = field(repr=False)
    """Identifier of the rate limit counter: one for each key, subject or address."""
    requests_per_minute: int = field(default=0, repr=False)
    characters_per_month: int = field(default=0, repr=False)
    bulk: bool = field(default=False, repr=False)
    """Whether the requests wait behind those of other callers."""
    permission: Permission | None = field(default=None, repr=False)
    """The languages and models that the caller may use; ``None`` is all."""


class TokenHolder(NamedTuple):
    """The caller of an access token: its name, and the limits that the token states."""

    name: str
    limits: Limits


class TokenIssuer(Protocol):
    async def caller(self, credential: str) -> TokenHolder | None:
        """The caller of an access token; ``None`` for what is no token."""


class Callers:
    """Identifies callers. Changes no state, so that several processes may each have one."""

    def __init__(
        self, policy: AccessPolicy, keys: KeyStore, issuer: TokenIssuer | None = None
    ) -> None:
        self._policy = policy
        self._keys = keys
        self._issuer = issuer

    def anonymous(self, connection: HTTPConnection) -> Caller:
        """The caller without a key."""
        address = address_of(connection)
        return Caller(None, f"address {address}", self._policy.requests_per_minute)

    async def identify(self, connection: HTTPConnection, key: str | None = None) -> Caller:
        """Return the caller; ``key`` is the value of the request's key field, if it has one.

        Raises ``KeyMissing``, ``KeyInvalid`` or ``IssuerUnavailable``. Where keys are off, any key
        is ignored.
        """
        if self._policy.keys == "off":
            return self.anonymous(connection)
        presented = key or next(iter(_presented(connection)), None)
        if presented is None:
            if self._policy.keys == "required":
                raise KeyMissing(self._policy.key_link)
            return self.anonymous(connection)
        caller = await self._found(presented)
        if caller is None:
            raise KeyInvalid
        note_caller(connection, caller.name)
        return caller

    async def permission(
        self, connection: HTTPConnection, key: str | None = None
    ) -> Permission | None:
        """The permission of ``key``, or of the key or token in a header, for routes that need none;
        ``None`` is all. Raises ``KeyInvalid`` or ``IssuerUnavailable``."""
        presented = key or next(iter(_presented(connection)), None)
        if self._policy.keys == "off" or presented is None:
            return None
        caller = await self._found(presented)
        if caller is None:
            raise KeyInvalid
        return caller.permission

    def origin(self, caller: Caller, priority: Priority) -> Origin:
        """Origin of the sentences of a caller's request."""
        effective = "bulk" if caller.bulk else priority
        return Origin(effective, caller=caller.counted_as, scope=self.scope(caller))

    def scope(self, caller: Caller) -> str:
        """The group of callers that share recent results, kept translations and documents.

        Where keys are required, callers share nothing: a quick answer would show that another
        caller has translated the same sentence.
        """
        return caller.counted_as if self._policy.keys == "required" else ""

    async def _found(self, credential: str) -> Caller | None:
        """The caller with this key or token; ``None`` if it is neither. Raises as ``TokenIssuer``
        does."""
        if (known := await self._keys.find(credential)) is not None:
            return self._holder("key", known.name, known.limits)
        if self._issuer and (token := await self._issuer.caller(credential)):
            return self._holder("token", *token)
        return None

    def _holder(self, kind: str, name: str, limits: Limits) -> Caller:
        requests, characters = limits.requests_per_minute, limits.characters_per_month
        return Caller(
            name,
            f"{kind} {name}",
            self._policy.requests_per_minute if requests is None else requests,
            self._policy.characters_per_month if characters is None else characters,
            limits.bulk,
            _permission_of(limits),
        )


class Access:
    """Applies rate limits and quotas to callers. Owns the counters of both."""

    def __init__(
        self,
        policy: AccessPolicy,
        keys: KeyStore,
        usage: UsageLedger,
        rates: SharedRateLimits,
        issuer: TokenIssuer | None = None,
    ) -> None:
        self.callers = Callers(policy, keys, issuer)
        self._policy = policy
        self._usage = usage
        self._rates = rates

    async def identify(self, connection: HTTPConnection, key: str | None = None) -> Caller:
        """The caller, as ``Callers.identify`` finds it; raises ``RateLimited`` after too many
        invalid keys."""
        try:
            return await self.callers.identify(connection, key)
        except KeyInvalid:
            await self._count_wrong_key(connection)
            raise

    async def permission(
        self, connection: HTTPConnection, key: str | None = None
    ) -> Permission | None:
        """The permission as ``Callers.permission`` finds it, and ``None`` for a wrong key; raises
        ``IssuerUnavailable``, and ``RateLimited`` after too many wrong ones."""
        try:
            return await self.callers.permission(connection, key)
        except KeyInvalid:
            await self._count_wrong_key(connection)
            return None

    async def admit(self, caller: Caller) -> None:
        """Count a request against the rate limit; raises ``RateLimited``."""
        if caller.requests_per_minute:
            await self._rates.hit(caller.counted_as, caller.requests_per_minute)

    def charge(self, caller: Caller, characters: int) -> AbstractAsyncContextManager[Charge]:
        """Charge an admitted request for the work done inside; see ``UsageLedger.charge``.

        Entering raises ``QuotaExceeded``.
        """
        return self._usage.charge(caller.name, characters, quota=caller.characters_per_month)

    def book(
        self, caller: Caller, characters: int, *, documents: int = 0
    ) -> AbstractAsyncContextManager[Booking]:
        """Charge an admitted request for work that is paid for in a transaction inside.

        Entering raises ``QuotaExceeded``.
        """
        quota = caller.characters_per_month
        return self._usage.booking(caller.name, characters, documents, quota)

    async def usage(self, caller: Caller) -> Usage:
        """Usage of a caller this month; all callers without a key share one count."""
        return await self._usage.of(caller.name)

    async def require_admin(self, connection: HTTPConnection) -> None:
        """Raises ``AdminRefused`` unless the request carries the admin key, and ``RateLimited``
        after too many wrong ones."""
        configured = self._policy.admin_key.get_secret_value().encode("utf-8")
        if not configured:
            raise AdminRefused(
                "there is no admin key, so this is not allowed; set DRAGOMAN_ADMIN_KEY and restart"
            )
        wanted = hashlib.sha256(configured).digest()
        allowed = False
        for presented in _presented(connection):
            digest = hashlib.sha256(presented.encode("latin-1")).digest()
            allowed |= hmac.compare_digest(digest, wanted)
        if not allowed:
            await self._count_wrong_key(connection)
            raise AdminRefused(
                "this needs the admin key; send it as Authorization: Bearer, or as X-API-Key"
            )

    async def _count_wrong_key(self, connection: HTTPConnection) -> None:
        """Count against the rate limit of the address, which slows guessing."""
        await self.admit(self.callers.anonymous(connection))


def _permission_of(limits: Limits) -> Permission | None:
    if not limits.models and not limits.languages:
        return None
    return Permission(frozenset(limits.models), frozenset(limits.languages))


def _presented(connection: HTTPConnection) -> list[str]:
    """The keys in the headers, as Starlette decodes them: one character for each byte."""
    presented = []
    for value in connection.headers.getlist("authorization"):
        scheme, _, key = value.strip().partition(" ")
        if scheme.lower() in _SCHEMES and key.strip():
            presented.append(key.strip())
    for name in _KEY_HEADERS:
        presented += [key for key in connection.headers.getlist(name) if key]
    return presented


def address_of(connection: HTTPConnection) -> str:
    """Address used for rate limits; for IPv6, the /64 network of the subscriber."""
    return "unknown" if connection.client is None else _counted(connection.client.host)


@lru_cache(_MOST_HOSTS)
def _counted(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:_LONGEST_HOST]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))
