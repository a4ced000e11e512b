from __future__ import annotations

from collections.abc import AsyncIterator, Callable
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
from service.state.keys import KeyStore
from service.state.rates import RateLimits
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
        await keys.add("weblate", KEY, **limits)
        yield Access(policy, keys, UsageLedger(database), RateLimits(lambda: 1000.0))


@pytest.mark.parametrize(
    "header",
    [
        ("Authorization", f"DeepL-Auth-Key {KEY}"),
        ("authorization", f"deepl-auth-key  {KEY} "),
        ("Authorization", f"Bearer {KEY}"),
        ("X-API-Key", KEY),
    ],
)
async def test_key_is_read_from_every_supported_header(header: tuple[str, str]) -> None:
    async with access_with(AccessPolicy(keys="required")) as access:
        assert (await access.identify(request(header))).name == "weblate"


async def test_key_field_takes_precedence_over_headers() -> None:
    async with access_with(AccessPolicy(keys="required")) as access:
        assert (await access.identify(request(), KEY)).name == "weblate"
        with pytest.raises(KeyInvalid):
            await access.identify(request(("X-API-Key", KEY)), "wrong")


@pytest.mark.parametrize("field", [None, "", KEY, "wrong", "\ud800"])
async def test_keys_are_ignored_where_they_are_off(field: str | None) -> None:
    async with access_with(AccessPolicy(keys="off")) as access:
        caller = await access.identify(request(("Authorization", "Bearer wrong")), field)
        assert caller.name is None


@pytest.mark.parametrize("field", [None, ""])
@pytest.mark.parametrize("header", [("Accept", "*/*"), ("Authorization", "Basic YTpi")])
async def test_missing_key_is_refused_only_where_keys_are_required(
    field: str | None, header: tuple[str, str]
) -> None:
    async with access_with(AccessPolicy(keys="optional")) as access:
        assert (await access.identify(request(header), field)).name is None
    async with access_with(AccessPolicy(keys="required")) as access:
        with pytest.raises(KeyMissing) as refusal:
            await access.identify(request(header), field)
    assert str(refusal.value) == "Please contact the server operator to get an API key"
    assert refusal_of(refusal.value).status == HTTPStatus.BAD_REQUEST


async def test_missing_key_error_has_the_configured_link() -> None:
    policy = AccessPolicy(keys="required", key_link="https://example.org/keys")
    async with access_with(policy) as access:
        with pytest.raises(KeyMissing) as refusal:
            await access.identify(request())
    assert str(refusal.value) == "Visit https://example.org/keys to get an API key"


@pytest.mark.parametrize("mode", ["optional", "required"])
@pytest.mark.parametrize("key", ["wrong", KEY.upper(), "ü", "\ud800", KEY + "\x00"])
async def test_a_wrong_key_is_refused(mode: str, key: str) -> None:
    policy = AccessPolicy(keys="optional" if mode == "optional" else "required")
    async with access_with(policy) as access:
        with pytest.raises(KeyInvalid) as refusal:
            await access.identify(request(), key)
    assert str(refusal.value) == "Invalid API key"
    assert refusal_of(refusal.value).status == HTTPStatus.FORBIDDEN


async def test_wrong_keys_count_against_the_rate_limit() -> None:
    async with access_with(AccessPolicy(keys="required", requests_per_minute=2)) as access:
        for _ in range(2):
            with pytest.raises(KeyInvalid):
                await access.identify(request(), "wrong")
        with pytest.raises(RateLimited):
            await access.identify(request(), "wrong")
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


async def test_rate_limit_refuses_with_retry_after() -> None:
    async with access_with(AccessPolicy(keys="optional", requests_per_minute=2)) as access:
        caller = await access.identify(request(), KEY)
        access.admit(caller)
        async with access.charge(caller, 10):
            pass
        with pytest.raises(RateLimited) as refusal:
            async with access.charge(caller, 10):
                pytest.fail("it was translated")
        assert (await access.usage(caller)).characters == 10
        access.admit(await access.identify(request()))
    assert refusal_of(refusal.value).status == HTTPStatus.TOO_MANY_REQUESTS
    assert headers_of(refusal.value) == {"retry-after": "60"}
    assert str(refusal.value).startswith("Slowdown: 2 requests a minute at most")


async def test_quota_is_enforced_and_failed_work_is_not_charged() -> None:
    async with access_with(AccessPolicy(keys="required"), characters_per_month=100) as access:
        caller = await access.identify(request(), KEY)
        with pytest.raises(ZeroDivisionError):
            async with access.charge(caller, 100):
                raise ZeroDivisionError
        async with access.charge(caller, 60, documents=1):
            pass
        with pytest.raises(QuotaExceeded) as refusal:
            async with access.charge(caller, 41):
                pytest.fail("it was translated")
        usage = await access.usage(caller)
        assert (usage.characters, usage.documents) == (60, 1)
    assert refusal_of(refusal.value).status == HTTPStatus.FORBIDDEN


async def counted_together(one: str | None, other: str | None) -> bool:
    async with access_with(AccessPolicy(requests_per_minute=1)) as access:
        callers = [await access.identify(request(address=address)) for address in (one, other)]
        return callers[0].counted_as == callers[1].counted_as


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::1", "fe80::1%eth0", False),
        ("client", "client", True),
        (None, None, True),
    ],
)
async def test_addresses_of_one_subscriber_count_together(
    one: str | None, other: str | None, together: bool
) -> None:
    assert await counted_together(one, other) is together


async def test_forwarded_headers_do_not_change_the_address() -> None:
    async with access_with(AccessPolicy(requests_per_minute=1)) as access:
        forged = request(("X-Forwarded-For", "198.51.100.7"), ("Forwarded", "for=198.51.100.7"))
        assert await access.identify(forged) == await access.identify(request())


async def test_key_named_like_an_address_has_its_own_rate_limit() -> None:
    async with Database(None) as database:
        keys = KeyStore(database)
        await keys.add("192.0.2.1", KEY)
        policy = AccessPolicy(keys="optional")
        access = Access(policy, keys, UsageLedger(database), RateLimits())
        named = await access.identify(request(), KEY)
        assert named.counted_as != (await access.identify(request())).counted_as


ADMIN = AccessPolicy(admin_key=SecretStr("opén sesame"))


def utf8(text: str) -> str:
    """UTF-8 bytes decoded as Latin-1, as a server decodes headers."""
    return text.encode().decode("latin-1")


@pytest.mark.parametrize(
    "header",
    [
        lambda key: ("Authorization", f"Bearer {key}"),
        lambda key: ("X-API-Key", key),
    ],
)
async def test_only_the_admin_key_grants_admin_access(
    header: Callable[[str], tuple[str, str]],
) -> None:
    async with access_with(ADMIN) as access:
        access.require_admin(request(header(utf8("opén sesame"))))
        for wrong in ("opén", utf8("opén sesame!"), KEY):
            with pytest.raises(AdminRefused, match="this needs the admin key; send it as"):
                access.require_admin(request(header(wrong)))


async def test_admin_access_is_refused_without_a_configured_admin_key() -> None:
    async with access_with(AccessPolicy()) as access:
        for headers in ([], [("X-API-Key", "")], [("Authorization", "Bearer ")]):
            with pytest.raises(AdminRefused, match="set DRAGOMAN_ADMIN_KEY") as refusal:
                access.require_admin(request(*headers))
    assert refusal_of(refusal.value).status == HTTPStatus.FORBIDDEN


async def test_secrets_and_addresses_are_in_no_repr() -> None:
    async with access_with(AccessPolicy(keys="optional")) as access:
        assert repr(await access.identify(request(), KEY)) == "Caller(name='weblate')"
        assert repr(await access.identify(request())) == "Caller(name=None)"
    assert "sesame" not in repr(ADMIN)
    assert repr(Caller("ann", "key ann", 1, 2)) == "Caller(name='ann')"
