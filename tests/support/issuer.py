"""An OpenID Connect issuer on a port of this machine, which signs access tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.local_server import answering

AUDIENCE = "dragoman"
DISCOVERY, JWKS = "/.well-known/openid-configuration", "/keys"


class LocalIssuer:
    def __init__(self, address: str) -> None:
        self.address = address
        self.private: dict[str, Any] = {"first": ed25519.Ed25519PrivateKey.generate()}
        """Keys by ``kid``."""
        self.published = ["first"]
        self.replaced: dict[str, bytes] = {}
        """Answers by path, instead of the issuer's own."""
        self.asked: list[str] = []

    def token(self, kid: str = "first", algorithm: str = "EdDSA", **changes: Any) -> str:
        """A valid token with these claims changed, and the header by ``header``; ``None`` leaves
        out."""
        header = _given({"kid": kid, **changes.pop("header", {})})
        now = int(time.time())
        claims = {"iss": self.address, "aud": AUDIENCE, "exp": now + 60, "sub": "ann", **changes}
        return jwt.encode(_given(claims), self.private[kid], algorithm, header)

    def jwk(self, kid: str) -> dict[str, Any]:
        kinds: Any = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
        private = self.private[kid]
        kind = next((kinds[each] for each in kinds if isinstance(private, each)), OKPAlgorithm)
        return {**kind.to_jwk(private.public_key(), as_dict=True), "kid": kid}

    def answer(self, path: str) -> bytes | None:
        self.asked.append(path)
        if path == DISCOVERY:
            document: Any = {"issuer": self.address, "jwks_uri": self.address + JWKS}
        else:
            document = {"keys": [self.jwk(kid) for kid in self.published]}
        return self.replaced.get(path, json.dumps(document).encode())


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@contextmanager
def local_issuer() -> Iterator[LocalIssuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = issuer.answer(self.path)
            self.send_response(200 if content else 500)
            self.end_headers()
            self.wfile.write(content or b"")

    with answering(Handler) as address:
        issuer = LocalIssuer(address)
        yield issuer
