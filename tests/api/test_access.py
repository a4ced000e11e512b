from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from pydantic import SecretStr
from starlette.requests import HTTPConnection

from service.api.access import Access, AccessPolicy, Caller
from service.api.errors import (
    AdminRefused,
    KeyInvalid,
    KeyMissing,
    headers_of,
    refusal_of,
)
from service.state.database import Database
from service.state.errors import QuotaExceeded, RateLimited
from service.state.keys import KeyStore, Limits
from service.state.rates import RateLimits
from service.state.shared_rates import SharedRateLimits
from service.state.usage import UsageLedger

KEY = "f63c02c5-f056-4a2e:fx"


def request(*headers: tuple[str, str], address: str | None = "192.0.2.1") -> HTTPConnection:
    return HTTPConnection(
        {
            "type": "http",
            "headers": [
                (name.lower().encode(), value.encode("latin-1")) for name, value in headers
            ],
            "client": None if address is None else (address, 4711),
        }
    )


@asynccontextmanager
async def access_with(policy: AccessPolicy, **limits: int) -> AsyncIterator[Access]:
    """Access with one known key, named weblate."""
    async with Database(None) as database:
        keys = KeyStore(database)
        await keys.add("weblate", KEY, Limits(**limits))
        yield Access(
            policy, keys, UsageLedger(database), SharedRateLimits(alone=RateLimits(lambda: 1000.0))
        )


async def test_key_is_read_from_its_field_or_else_from_every_supported_header() -> None:
    async with access_with(AccessPolicy(keys="required")) as access:
        for header in (
            ("Authorization", f"DeepL-Auth-Key {KEY}"),
            ("authorization", f"deepl-auth-key  {KEY} "),
            ("Authorization", f"Bearer {KEY}"),
            ("X-API-Key", KEY),
        ):
            assert (await access.identify(request(header))).name == "weblate"
        assert (await access.identify(request(), KEY)).name == "weblate"
        with pytest.raises(KeyInvalid):
            await access.identify(request(("X-API-Key", KEY)), "wrong")


async def test_missing_key_is_refused_where_keys_are_required_and_a_wrong_one_unless_off() -> None:
    off, optional, required = (
        AccessPolicy(keys="off"),
        AccessPolicy(keys="optional"),
        AccessPolicy(keys="required", key_link="https://example.org/keys"),
    )
    for headers in ([], [("Accept", "*/*")], [("Authorization", "Basic YTpi")]):
        for field in (None, ""):
            for policy in (off, optional):
                async with access_with(policy) as access:
                    assert (await access.identify(request(*headers), field)).name is None
            async with access_with(required) as access:
                with pytest.raises(KeyMissing, match=r"https://example\.org/keys") as missing:
                    await access.identify(request(*headers), field)
    assert refusal_of(missing.value).status == HTTPStatus.BAD_REQUEST
    for key in ("wrong", KEY.upper(), "ü", "\ud800", KEY + "\x00"):
        async with access_with(off) as access:
            assert (await access.identify(request(), key)).name is None
        for policy in (optional, required):
            async with access_with(policy) as access:
                with pytest.raises(KeyInvalid) as refusal:
                    await access.identify(request(), key)
    assert refusal_of(refusal.value).status == HTTPStatus.FORBIDDEN


async def test_wrong_keys_count_against_the_rate_limit() -> None:
    async with access_with(AccessPolicy(keys="required", requests_per_minute=2)) as access:
        # A route that needs no key shows its answer, and counts.
        assert await access.permission(request(), "wrong") is None
        with pytest.raises(KeyInvalid):
            await access.identify(request(), "wrong")
        for ask in (access.identify, access.permission):
            with pytest.raises(RateLimited):
                await ask(request(), "wrong")
        assert (await access.identify(request(), KEY)).name == "weblate"


async def test_limits_of_a_key_override_those_of_the_service() -> None:
    policy = AccessPolicy(keys="optional", requests_per_minute=5, characters_per_month=100)
    async with access_with(policy) as access:
        caller = await access.identify(request(), KEY)
        assert (caller.requests_per_minute, caller.characters_per_month) == (5, 100)
        caller = await access.identify(request())
        assert (caller.requests_per_minute, caller.characters_per_month) == (5, 0)
    async with access_with(policy, requests_per_minute=0, characters_per_month=7) as access:
        caller = await access.identify(request(), KEY)
        assert (caller.requests_per_minute, caller.characters_per_month) == (0, 7)


ADMIN = AccessPolicy(admin_key=SecretStr("opén sesame"))


def utf8(text: str) -> str:
    """UTF-8 bytes decoded as Latin-1, as a server decodes headers."""
    return text.encode().decode("latin-1")


async def test_limits_are_enforced_and_failed_work_is_not_charged() -> None:
    policy = AccessPolicy(keys="optional", requests_per_minute=3)
    async with access_with(policy, characters_per_month=100) as access:
        caller = await access.identify(request(), KEY)
        for _ in range(3):
            await access.admit(caller)
        with pytest.raises(ZeroDivisionError):
            async with access.charge(caller, 100):
                raise ZeroDivisionError
        async with access.charge(caller, 60):
            pass
        with pytest.raises(QuotaExceeded) as spent:
            async with access.charge(caller, 41):
                pytest.fail("it was translated")
        with pytest.raises(RateLimited) as refusal:
            await access.admit(caller)
        usage = await access.usage(caller)
        assert (usage.characters, usage.documents) == (60, 0)
        await access.admit(await access.identify(request()))
    assert refusal_of(spent.value).status == HTTPStatus.FORBIDDEN
    assert refusal_of(refusal.value).status == HTTPStatus.TOO_MANY_REQUESTS
    assert headers_of(refusal.value) == {"retry-after": "60"}


async def test_addresses_of_one_subscriber_count_together_and_apart_from_keys() -> None:
    forged = [("X-Forwarded-For", "198.51.100.7"), ("Forwarded", "for=198.51.100.7")]
    async with access_with(AccessPolicy(keys="optional", requests_per_minute=1)) as access:
        for one, other, together in (
            ("192.0.2.1", "192.0.2.1", True),
            ("192.0.2.1", "192.0.2.2", False),
            ("192.0.2.1", "::ffff:192.0.2.1", True),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
            ("::1", "fe80::1%eth0", False),
            ("client", "client", True),
            (None, None, True),
        ):
            callers = [
                await access.identify(request(address=one)),
                await access.identify(request(*forged, address=other)),
            ]
            assert (callers[0].counted_as == callers[1].counted_as) is together
        named = await access.identify(request(address="weblate"), KEY)
        unnamed = await access.identify(request(address="weblate"))
        assert named.counted_as != unnamed.counted_as


async def test_only_a_configured_admin_key_grants_admin_access() -> None:
    async with access_with(ADMIN) as access:
        for name, prefix in (("Authorization", "Bearer "), ("X-API-Key", "")):
            await access.require_admin(request((name, prefix + utf8("opén sesame"))))
            for wrong in ("opén", utf8("opén sesame!"), KEY):
                with pytest.raises(AdminRefused, match="this needs the admin key; send it as"):
                    await access.require_admin(request((name, prefix + wrong)))
    async with access_with(AccessPolicy()) as access:
        for headers in ([], [("X-API-Key", "")], [("Authorization", "Bearer ")]):
            with pytest.raises(AdminRefused, match="set DRAGOMAN_ADMIN_KEY") as refusal:
                await access.require_admin(request(*headers))
    assert refusal_of(refusal.value).status == HTTPStatus.FORBIDDEN


async def test_secrets_and_addresses_are_in_no_repr() -> None:
    async with access_with(AccessPolicy(keys="optional")) as access:
        assert repr(await access.identify(request(), KEY)) == "Caller(name='weblate')"
        assert repr(await access.identify(request())) == "Caller(name=None)"
    assert "sesame" not in repr(ADMIN)
    assert repr(Caller("ann", "key ann", 1, 2)) == "Caller(name='ann')"


async def test_wrong_admin_keys_count_against_the_rate_limit_of_their_address() -> None:
    policy = AccessPolicy(admin_key=SecretStr("sesame"), requests_per_minute=2)
    async with access_with(policy) as access:
        for _ in range(2):
            with pytest.raises(AdminRefused):
                await access.require_admin(request(("x-api-key", "open")))
        with pytest.raises(RateLimited):
            await access.require_admin(request(("x-api-key", "open")))
        await access.require_admin(request(("x-api-key", "sesame")))
