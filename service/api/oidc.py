"""Checks OpenID Connect access tokens: signed JWTs of one issuer, whose keys are kept in memory.

The keys are read from the issuer by discovery (OpenID Connect Discovery 1.0, section 4). What a
token says of its own keys (``jku``, ``jwk``, ``x5u``, ``x5c``) is ignored. Needs the extra
``oidc``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from service.api.access import TokenHolder
from service.api.errors import IssuerUnavailable, KeyInvalid
from service.state.errors import KeyRefused
from service.state.keys import Limits, check_permitted

logger = logging.getLogger(__name__)
# It logs every request.
logging.getLogger("httpx").setLevel(logging.WARNING)

_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]*", re.ASCII)
_LONGEST_TOKEN = 8192
_LONGEST_SUBJECT = 255
"""Limit of OpenID Connect Core 1.0, section 2, which also demands ASCII."""
_LEEWAY_SECONDS = 30
"""How much the clocks of the issuer and of this machine may differ."""
_MODELS, _LANGUAGES = "dragoman_models", "dragoman_languages"
"""Claims with the only models and languages that the caller may use."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Types of access tokens (RFC 9068, section 2.1). A token for another purpose has another type."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Mapping[object, tuple[str, ...]] = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
"""Algorithms that a key may be used with. The type of the key decides, not the token, so that a
public key is never the secret of an HMAC (RFC 8725, section 3.1)."""

_FRESH_SECONDS = 300.0
"""Time between two readings of the issuer's keys: how long a revoked key is accepted."""
_PAUSE_SECONDS = 10.0
"""Shortest time between two readings, however many tokens name unknown keys."""
_FIRST_PAUSE_SECONDS = 1.0
"""The same while no key is known, as at the start."""
_TRUSTED_SECONDS = 3600.0
"""How long the keys are valid while the issuer cannot be read."""
_FETCH_SECONDS = 10.0
"""Longest time of a reading: the loop may be busy with models at the start."""
_MOST_BYTES = 1 << 18
"""Bytes of a document of the issuer."""

_Keys = dict[str | None, tuple[Any, tuple[str, ...]]]
"""Public keys and their algorithms, by ``kid``."""


class _Unusable(Exception):
    """The issuer answered something else than it should; the message says what."""


class OidcIssuer:
    """Event loop only. The keys of an issuer, and the check of its tokens."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        clock: Callable[[], float] = time.monotonic,
        fresh_seconds: float = _FRESH_SECONDS,
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._client = httpx.AsyncClient(timeout=_FETCH_SECONDS)
        self._keys: _Keys = {}
        self._confirmed = -math.inf
        self._attempted = -math.inf
        self._failed = True
        """Whether the last reading failed."""
        self._reading: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the keys again and again inside the context."""
        refreshing = asyncio.create_task(self._stay_fresh())
        try:
            yield
        finally:
            tasks = [task for task in (refreshing, self._reading) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.aclose()

    async def caller(self, credential: str) -> TokenHolder | None:
        """The caller of a valid token; ``None`` if the text is no JWT.

        The name contains ``:`` and ``#``, so that it is that of no API key, and the issuer, so that
        subjects of another issuer are other callers. Raises ``KeyInvalid`` for any other token, and
        ``IssuerUnavailable`` if the token cannot be checked.
        """
        if not _JWT.fullmatch(credential):
            return None
        if len(credential) > _LONGEST_TOKEN:
            raise _invalid(f"it has more than {_LONGEST_TOKEN} characters")
        try:
            header = jwt.get_unverified_header(credential)
            if str(header.get("typ", "jwt")).lower() not in _TYPES:
                raise _invalid("its type is not that of access tokens")
            key, algorithms = await self._key(header.get("kid"))
            claims = jwt.decode(
                credential,
                key,
                algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={
                    "require": ["iss", "aud", "exp", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise _invalid(_reason(error)) from None
        subject = claims["sub"]
        if not 0 < len(subject) <= _LONGEST_SUBJECT or not (
            subject.isascii() and subject.isprintable()
        ):
            raise _invalid(f"its sub is not 1 to {_LONGEST_SUBJECT} printable ASCII characters")
        return TokenHolder(f"{self._issuer}#{subject}", _limits_in(claims))

    async def _key(self, kid: str | None) -> tuple[Any, tuple[str, ...]]:
        """The key that a token names, and its algorithms; without a name, the only key."""
        found = self._known(kid)
        if found is None:
            await self._refresh()
            found = self._known(kid)
        if found is not None:
            return found
        if self._failed:
            raise IssuerUnavailable(self._issuer)
        raise _invalid("the issuer publishes no such key")

    def _known(self, kid: str | None) -> tuple[Any, tuple[str, ...]] | None:
        if self._clock() >= self._confirmed + _TRUSTED_SECONDS:
            return None
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    @property
    def _pause(self) -> float:
        return _PAUSE_SECONDS if self._keys else _FIRST_PAUSE_SECONDS

    async def _stay_fresh(self) -> None:
        while True:
            try:
                await self._refresh()
            # A bug must not end the task. Requests with unknown keys get the exception as well.
            except Exception:
                logger.exception("reading the keys of %s failed unexpectedly", self._issuer)
            await asyncio.sleep(self._pause if self._failed else self._fresh_seconds)

    async def _refresh(self) -> None:
        """Read the keys, unless that has been tried a moment ago. All callers share one attempt."""
        if self._reading is None or self._reading.done():
            if self._clock() < self._attempted + self._pause:
                return
            self._attempted = self._clock()
            self._reading = asyncio.create_task(self._read())
        # The attempt outlives the request that began it.
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        self._failed = True
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                document = await self._fetch(await self._key_address())
            # A key takes some microseconds, but there may be hundreds.
            self._keys = await asyncio.to_thread(_keys_of, document)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, _Unusable) as error:
            problem = str(error) or type(error).__name__
            logger.warning("the keys of %s cannot be read: %s", self._issuer, problem)
            return
        self._confirmed = self._clock()
        self._failed = False

    async def _key_address(self) -> str:
        place = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self._fetch(place)
        if found.get("issuer") != self._issuer:
            raise _Unusable(f"{place} is of another issuer")
        address = found.get("jwks_uri")
        if not isinstance(address, str) or not self._is_safe(address):
            raise _Unusable(f"{place} has no https:// address in jwks_uri")
        return address

    def _is_safe(self, address: str) -> bool:
        """Whether an address has TLS, or is beside an issuer that needs none on this machine."""
        try:
            parts, own = urlsplit(address), urlsplit(self._issuer)
        except ValueError:
            return False
        return parts.scheme == "https" or parts[:2] == own[:2]

    async def _fetch(self, address: str) -> dict[str, Any]:
        # A compressed answer could be larger than its bytes.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        content = bytearray()
        async with self._client.stream("GET", address, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                raise _Unusable(f"{address} answers {response.status_code}")
            async for part in response.aiter_raw():
                content += part
                if len(content) > _MOST_BYTES:
                    raise _Unusable(f"{address} has more than {_MOST_BYTES} bytes")
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise _Unusable(f"{address} is no JSON") from error
        if not isinstance(found, dict):
            raise _Unusable(f"{address} is no JSON object")
        return found


def _keys_of(document: Mapping[str, Any]) -> _Keys:
    """The keys of a JWK set that sign access tokens; raises ``_Unusable`` if there are none."""
    keys: _Keys = {}
    listed = document.get("keys")
    for each in listed if isinstance(listed, list) else ():
        algorithms = _algorithms_of(each)
        if not algorithms:
            continue
        kid = each.get("kid")
        try:
            keys[kid] = jwt.PyJWK(each, algorithms[0]).key, algorithms
        # One broken key does not make the others useless.
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            logger.warning("key %s of the issuer cannot be used: %s", kid, type(error).__name__)
    if not keys:
        raise _Unusable("there is no key that signs access tokens")
    return keys


def _algorithms_of(key: Any) -> tuple[str, ...]:
    """The accepted algorithms of a JWK; none if it has another use, or another type."""
    match key:
        case {"use": str(use)} if use != "sig":
            return ()
        case {"kty": "RSA"}:
            fitting: tuple[str, ...] = _RSA
        case {"kty": "EC" | "OKP", "crv": str(curve)}:
            fitting = _BY_CURVE.get(curve, ())
        case _:
            return ()
    stated = key.get("alg")
    return fitting if stated is None else tuple(name for name in fitting if name == stated)


def _limits_in(claims: Mapping[str, Any]) -> Limits:
    """The models and languages to which a token restricts its caller; raises ``KeyInvalid``."""
    limits = Limits(models=_names_in(claims, _MODELS), languages=_names_in(claims, _LANGUAGES))
    try:
        check_permitted(limits)
    except KeyRefused as error:
        raise _invalid(str(error)) from None
    return limits


def _names_in(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """The names in a claim, a list or a text with blanks between them; none without the claim."""
    if claim not in claims:
        return ()
    match claims[claim]:
        case str(text):
            names: list[Any] = text.split()
        case list(names):
            pass
        case _:
            names = []
    # Without a name, a key would be restricted to nothing.
    if not names or not all(isinstance(name, str) for name in names):
        raise _invalid(f"its {claim} is neither a list of names nor a text of them")
    return tuple(names)


def _reason(error: jwt.PyJWTError) -> str:
    """The fault of a token. Messages of PyJWT may quote the token."""
    match error:
        case jwt.ExpiredSignatureError():
            return "it has expired"
        case jwt.ImmatureSignatureError():
            return "it is not valid yet"
        case jwt.InvalidAudienceError():
            return "it is for another audience"
        case jwt.InvalidIssuerError():
            return "it is of another issuer"
        case jwt.MissingRequiredClaimError():
            return f"it has no {error.claim}"
        case jwt.InvalidAlgorithmError():
            return "its algorithm does not belong to the key"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
        case jwt.InvalidKeyError():
            return "the issuer's key is too short"
        case _:
            return "it is no valid JWT"


def _invalid(problem: str) -> KeyInvalid:
    return KeyInvalid(f"Invalid access token: {problem}")
