"""Access tokens of an issuer on this machine: keys, claims, rotation, failures of the issuer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_encode
from pydantic import SecretStr

from service.api.errors import IssuerUnavailable, KeyInvalid, headers_of, refusal_of
from service.api.oidc import OidcIssuer
from service.bootstrap import issuer_of
from service.settings import InvalidSetting, Settings
from service.state.keys import Limits
from tests.support.asgi import connected
from tests.support.fronts import owning, worker_of
from tests.support.issuer import AUDIENCE, DISCOVERY, JWKS, LocalIssuer, local_issuer
from tests.support.keys import add_key


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with local_issuer() as running:
        yield running


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def checking(
    issuer: LocalIssuer, clock: Callable[[], float] = time.monotonic, fresh_seconds: float = 300
) -> AsyncIterator[OidcIssuer]:
    """A check of tokens that has read the keys once, unless the issuer fails."""
    checker = OidcIssuer(issuer.address, AUDIENCE, clock, fresh_seconds)
    async with checker.running():
        if not issuer.replaced:
            await checker.caller(issuer.token())
        yield checker


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


async def test_tokens_of_every_kind_of_key_name_their_subject(issuer: LocalIssuer) -> None:
    issuer.private |= {
        "rsa": rsa_key(),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "p521": ec.generate_private_key(ec.SECP521R1()),
        "ed448": ed448.Ed448PrivateKey.generate(),
    }
    issuer.published = list(issuer.private)
    algorithms = {"rsa": ("RS256", "PS512"), "p256": ("ES256",), "p384": ("ES384",)}
    algorithms |= {"p521": ("ES512",), "ed448": ("EdDSA",), "first": ("EdDSA",)}
    async with checking(issuer) as checker:
        for kid, names in algorithms.items():
            for name in names:
                token = issuer.token(kid, name, aud=["other", AUDIENCE], header={"typ": "at+jwt"})
                assert await checker.caller(token) == (f"{issuer.address}#ann", Limits())
        # Without a kid, only one key could be meant.
        with pytest.raises(KeyInvalid, match="publishes no such key"):
            await checker.caller(issuer.token(header={"kid": None}))
    issuer.published = ["first"]
    now = int(time.time())
    async with checking(issuer) as checker:
        assert await checker.caller(issuer.token(header={"kid": None}))
        assert await checker.caller(issuer.token(exp=now - 20, nbf=now + 20))
        for text in ("garbage", "a.b", "a.b.c.d", "a.b.c=", "", "ä.b.c", " a.b.c"):
            assert await checker.caller(text) is None


def signed(header: dict[str, Any], key: Any = b"", algorithm: str = "none") -> Callable[..., str]:
    """Tokens with the claims of a valid one, whose header and key are others."""

    def forge(issuer: LocalIssuer) -> str:
        _, claims, _ = issuer.token().split(".")
        start = base64url_encode(json.dumps({"kid": "first", **header}).encode()) + b"."
        content = start + claims.encode()
        secret = key(issuer) if callable(key) else key
        signer = jwt.get_algorithm_by_name(algorithm)
        signature = signer.sign(content, signer.prepare_key(secret)) if secret else b""
        return (content + b"." + base64url_encode(signature)).decode()

    return forge


def public(issuer: LocalIssuer) -> bytes:
    public: bytes = (
        issuer.private["first"].public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    )
    return public


def of_short_key(issuer: LocalIssuer) -> str:
    issuer.private["short"] = rsa_key(1024)
    issuer.published.append("short")
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        return issuer.token("short", "RS256")


def of_withheld(use: dict[str, str]) -> Callable[[LocalIssuer], str]:
    """Tokens of a key that is published for something else."""

    def publish(issuer: LocalIssuer) -> str:
        issuer.private["other"] = ed25519.Ed25519PrivateKey.generate()
        keys = [issuer.jwk("first"), issuer.jwk("other") | use]
        issuer.replaced[JWKS] = json.dumps({"keys": keys}).encode()
        return issuer.token("other")

    return publish


OWN = {"jwk": {"kty": "OKP"}, "jku": "http://127.0.0.1:9/", "x5u": "http://127.0.0.1:9/"}
STRANGE = ed25519.Ed25519PrivateKey.generate()
EdDSA = {"alg": "EdDSA"}
NOT_OF_KEY, NO_KEY = "its algorithm does not belong to the key", "the issuer publishes no such key"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (signed({"alg": "none"}), NOT_OF_KEY),
        (signed({"alg": "nOnE"}), NOT_OF_KEY),
        (signed({}), NOT_OF_KEY),
        (signed({"alg": ["EdDSA"]}), NOT_OF_KEY),
        (signed({"alg": "HS256"}, public, "HS256"), NOT_OF_KEY),
        (signed({"alg": "RS256"}, lambda _: rsa_key(), "RS256"), NOT_OF_KEY),
        (signed(EdDSA), "its signature is wrong"),
        (signed(EdDSA, STRANGE, "EdDSA"), "its signature is wrong"),
        (signed(EdDSA | OWN, STRANGE, "EdDSA"), "its signature is wrong"),
        (signed(EdDSA | OWN | {"kid": "own"}, STRANGE, "EdDSA"), NO_KEY),
        (signed(EdDSA | {"kid": 7}), "it is no valid JWT"),
        (of_withheld({"use": "enc"}), NO_KEY),
        (of_withheld({"alg": "ES256"}), NO_KEY),
        (of_withheld({"x": "AA"}), NO_KEY),
        (of_short_key, "the issuer's key is too short"),
        (lambda it: it.token(header={"crit": ["exp"], "exp": 1}), "it is no valid JWT"),
        (lambda it: it.token(header={"typ": "logout+jwt"}), "its type is not that of access…"),
        (lambda it: it.token(exp=int(time.time()) - 40), "it has expired"),
        (lambda it: it.token(exp=None), "it has no exp"),
        (lambda it: it.token(exp=float("inf")), "it is no valid JWT"),
        (lambda it: it.token(nbf=int(time.time()) + 40), "it is not valid yet"),
        (lambda it: it.token(iss=f"{it.address}/"), "it is of another issuer"),
        (lambda it: it.token(iss=None), "it has no iss"),
        (lambda it: it.token(aud=f"{AUDIENCE}2"), "it is for another audience"),
        (lambda it: it.token(aud=[]), "it has no aud"),
        (lambda it: it.token(aud=None), "it has no aud"),
        (lambda it: it.token(sub=None), "it has no sub"),
        (lambda it: it.token(sub=""), "its sub is not 1 to 255 printable ASCII characters"),
        (lambda it: it.token(sub="a\n"), "its sub is not 1 to 255 printable ASCII characters"),
        (lambda it: it.token(sub="ä"), "its sub is not 1 to 255 printable ASCII characters"),
        (lambda it: it.token(sub="a" * 256), "its sub is not 1 to 255 printable ASCII charac…"),
        (lambda it: it.token(dragoman_models=[]), "its dragoman_models is neither a list of names"),
        (lambda it: it.token(dragoman_models=""), "its dragoman_models is neither a list of names"),
        (lambda it: it.token(dragoman_models=["a", 7]), "its dragoman_models is neither a list"),
        (lambda it: it.token(dragoman_languages={"de": 1}), "its dragoman_languages is neither a"),
        (lambda it: it.token(dragoman_languages="de"), "de permits no pair by itself"),
        (lambda it: it.token(dragoman_languages="german"), "'german' is neither the code of a"),
        (lambda it: it.token(dragoman_models=["m"] * 101), "101 names are too many"),
        (lambda it: it.token(more="a" * 8192), "it has more than 8192 characters"),
        (lambda _: "a.b.c", "it is no valid JWT"),
        (lambda _: f"{base64url_encode(b'[' * 6000).decode()}.e30.", "it is no valid JWT"),
        (lambda it: it.token()[:-6], "its signature is wrong"),
    ],
)
async def test_wrong_token_is_refused_with_the_reason(
    issuer: LocalIssuer, wrong: Callable[[LocalIssuer], str], reason: str
) -> None:
    token = wrong(issuer)
    checker = OidcIssuer(issuer.address, AUDIENCE)
    async with checker.running():
        with pytest.raises(KeyInvalid) as refusal:
            await checker.caller(token)
        assert await checker.caller(issuer.token())
    assert str(refusal.value).startswith(f"Invalid access token: {reason.rstrip('…')}")
    assert set(issuer.asked) <= {DISCOVERY, JWKS}


async def test_unknown_keys_are_looked_for_once_in_ten_seconds(issuer: LocalIssuer) -> None:
    clock = Clock()
    async with checking(issuer, clock) as checker:
        old = issuer.token()
        issuer.private["second"] = ed25519.Ed25519PrivateKey.generate()
        issuer.published = ["second"]
        unknown = [signed({"alg": "EdDSA", "kid": str(n)})(issuer) for n in range(50)]
        for wrong in (unknown[0], issuer.token("second")):
            with pytest.raises(KeyInvalid, match="no such key"):
                await checker.caller(wrong)
        assert issuer.asked.count(JWKS) == 1
        clock.now = 10
        calls = [checker.caller(each) for each in (*unknown, issuer.token("second"))]
        *refused, accepted = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in refused} == {KeyInvalid}
        assert accepted == (f"{issuer.address}#ann", Limits())
        assert issuer.asked.count(JWKS) == 2
        with pytest.raises(KeyInvalid, match="no such key"):
            await checker.caller(old)


async def test_keys_are_read_again_and_again(issuer: LocalIssuer) -> None:
    clock = Clock()
    async with checking(issuer, clock, fresh_seconds=0.01) as checker:
        issuer.private["second"] = ed25519.Ed25519PrivateKey.generate()
        issuer.published = ["second"]
        clock.now = 10
        while issuer.asked.count(JWKS) == 1:
            await asyncio.sleep(0.01)
        assert await checker.caller(issuer.token("second"))


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        (DISCOVERY, b"", "answers 500"),
        (DISCOVERY, b"<html>", "is no JSON"),
        (DISCOVERY, b"[" * 100_000, "is no JSON"),
        (DISCOVERY, b"[]", "is no JSON object"),
        (DISCOVERY, b"{}", "is of another issuer"),
        (DISCOVERY, b'{"issuer": "http://127.0.0.1"}', "is of another issuer"),
        (DISCOVERY, b'{"issuer": "IT", "jwks_uri": "http://[/"}', "no https:// address"),
        (DISCOVERY, b'{"issuer": "IT", "jwks_uri": "http://10.0.0.1/"}', "no https:// address"),
        (DISCOVERY, b'{"issuer": "IT", "jwks_uri": "file:///etc/passwd"}', "no https:// address"),
        (JWKS, b"", "answers 500"),
        (JWKS, b'{"keys": 1}', "there is no key that signs access tokens"),
        (JWKS, b'{"keys": [7, {"kty": "oct", "k": "AA"}]}', "there is no key that signs"),
        (JWKS, b" " * (1 << 18) + b"{}", "has more than 262144 bytes"),
    ],
)
async def test_unusable_issuer_is_named_in_the_log_and_by_503(
    issuer: LocalIssuer, path: str, content: bytes, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    issuer.replaced[path] = content.replace(b"IT", issuer.address.encode())
    async with checking(issuer, clock) as checker:
        with pytest.raises(IssuerUnavailable, match=issuer.address) as refusal:
            await checker.caller(issuer.token())
        assert refusal_of(refusal.value).status == 503
        assert headers_of(refusal.value) == {"retry-after": "5"}
        assert problem in caplog.text
        # The issuer is back, and is asked after a pause.
        issuer.replaced.clear()
        with pytest.raises(IssuerUnavailable):
            await checker.caller(issuer.token())
        clock.now = 10
        assert await checker.caller(issuer.token())


async def test_known_keys_go_on_for_an_hour_without_the_issuer(issuer: LocalIssuer) -> None:
    clock = Clock()
    async with checking(issuer, clock) as checker:
        issuer.replaced[DISCOVERY] = b""
        clock.now = 3599
        assert await checker.caller(issuer.token())
        with pytest.raises(IssuerUnavailable):
            await checker.caller(signed({"alg": "EdDSA", "kid": "other"})(issuer))
        clock.now = 3600
        for _ in range(2):
            with pytest.raises(IssuerUnavailable):
                await checker.caller(issuer.token())


async def test_unreachable_issuer_is_503() -> None:
    checker = OidcIssuer("https://127.0.0.1:9/", AUDIENCE)
    async with checker.running():
        with pytest.raises(IssuerUnavailable, match=r"https://127\.0\.0\.1:9/"):
            await checker.caller("e30.e30.")


def with_issuer(settings: Settings, issuer: LocalIssuer, **changes: object) -> Settings:
    oidc = {"oidc_issuer": issuer.address, "oidc_audience": AUDIENCE}
    return settings.model_copy(update={**oidc, **changes})


async def test_tokens_are_accepted_beside_keys_in_both_dialects(
    settings: Settings, issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert settings.state_directory is not None
    key = await add_key(settings.state_directory, "ann")
    settings = with_issuer(settings, issuer, admin_key=SecretStr("operator"))
    expired = issuer.token(exp=1)
    libretranslate = ("/translate", {"q": "wort", "source": "de", "target": "en"})
    deepl = ("/v2/translate", {"text": ["wort"], "source_lang": "DE", "target_lang": "EN"})
    async with connected(settings) as client:

        async def post(route: tuple[str, Any], credential: str = "", scheme: str = "Bearer") -> Any:
            headers = {"authorization": f"{scheme} {credential}"} if credential else {}
            return await client.post(route[0], json=route[1], headers=headers)

        account = {"authorization": f"Bearer {issuer.token()}"}
        while (await client.get("/v2/usage", headers=account)).status_code == 503:
            await asyncio.sleep(0.1)
        for scheme, route in (("Bearer", libretranslate), ("DeepL-Auth-Key", deepl)):
            for good in (issuer.token(), key):
                assert (await post(route, good, scheme)).status_code == 200
            wrong = await post(route, expired, scheme)
            assert wrong.status_code == 403
            assert list(wrong.json().values()) == ["Invalid access token: it has expired"]
        assert (await post(libretranslate)).status_code == 400
        assert (await post(deepl)).status_code == 403
        assert (await post(libretranslate, "garbage")).json() == {"error": "Invalid API key"}
        fields = {"name": "g", "source_lang": "de", "target_lang": "en"}
        fields |= {"entries": "a\tb", "entries_format": "tsv"}
        made = await post(("/v2/glossaries", fields), issuer.token())
        place = f"/v2/glossaries/{made.json()['glossary_id']}"
        others = issuer.token(sub="bob")
        for credential, status in ((issuer.token(), 200), (others, 404), (key, 404)):
            headers = {"authorization": f"Bearer {credential}"}
            assert (await client.get(place, headers=headers)).status_code == status
        await asyncio.sleep(1.1)
        usage = await client.get("/admin/usage", headers={"x-api-key": "operator"})
    used = {each["name"]: each["characters"] for each in usage.json()["usage"]}
    assert used == {"ann": 8, f"{issuer.address}#ann": 8}
    callers = {getattr(record, "caller", None) for record in caplog.records}
    assert callers >= {"ann", f"{issuer.address}#ann"}
    assert not any(secret in caplog.text for secret in (key, expired, issuer.token()[:40]))


async def test_claims_restrict_a_token_to_models_and_languages(
    settings: Settings, issuer: LocalIssuer
) -> None:
    some = issuer.token(dragoman_models=["shout-de-en", "other"], dragoman_languages="de-en en-fr")
    async with checking(issuer) as checker:
        found = await checker.caller(some)
    limits = Limits(models=("shout-de-en", "other"), languages=("de-en", "en-fr"))
    assert found == (f"{issuer.address}#ann", limits)
    none = issuer.token(dragoman_languages=["en", "fr"])
    statuses, listed = [], []
    body = {"q": "wort", "source": "de", "target": "en"}
    async with connected(with_issuer(settings, issuer)) as client:
        for token in (some, none, issuer.token(exp=1)):
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.post("/translate", json=body, headers=headers)
            statuses.append(answer.status_code)
            languages = (await client.get("/languages", headers=headers)).json()
            listed.append(
                any(each["code"] == "de" and "en" in each["targets"] for each in languages)
            )
    assert statuses == [200, 403, 403]
    assert listed == [True, False, True]


async def test_worker_checks_tokens_and_wrong_ones_count_for_their_address(
    settings: Settings, issuer: LocalIssuer, tmp_path: Path
) -> None:
    settings = with_issuer(settings, issuer, requests_per_minute=2)
    body = {"q": "wort", "source": "de", "target": "en"}
    async with (
        owning(settings, tmp_path / "owner"),
        worker_of(settings, tmp_path / "owner") as (_, client),
    ):
        statuses = []
        for token in (issuer.token(exp=1), issuer.token()) * 2 + (issuer.token(exp=1),):
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.post("/translate", json=body, headers=headers)
            statuses.append(answer.status_code)
    assert statuses == [403, 200, 403, 200, 429]


@pytest.mark.parametrize(
    ("issuer_address", "audience", "problem"),
    [
        ("https://login.example.org", "", "belong together"),
        ("", "dragoman", "belong together"),
        *(
            (address, "dragoman", "must be empty or an https:// address without a query")
            for address in (
                *("http://login.example.org", "http://localhost.example.org", "http://127.0.0.1@a"),
                *("https://a/?b", "https://a/#b", "https://", "login.example.org", "https://a b"),
            )
        ),
    ],
)
def test_invalid_issuer_is_refused(issuer_address: str, audience: str, problem: str) -> None:
    variables = {"DRAGOMAN_OIDC_ISSUER": issuer_address, "DRAGOMAN_OIDC_AUDIENCE": audience}
    with pytest.raises(InvalidSetting, match=problem):
        Settings.from_environment(variables)


def test_issuer_without_the_extra_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"DRAGOMAN_OIDC_AUDIENCE": "dragoman"}
    for address in (
        "https://a/b/",
        "http://localhost:8080/realms/a",
        "http://[::1]",
        "http://127.0.0.1:1",
    ):
        settings = Settings.from_environment(variables | {"DRAGOMAN_OIDC_ISSUER": address})
        assert settings.keys == "required"
    monkeypatch.setitem(__import__("sys").modules, "service.api.oidc", None)
    with pytest.raises(InvalidSetting, match="install the extra oidc"):
        issuer_of(settings)
