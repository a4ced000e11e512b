from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from service.bootstrap import Service

pytestmark = pytest.mark.anyio
DE_EN = {"source": "de", "target": "en"}


async def test_every_answer_carries_an_id_and_its_time(client: httpx.AsyncClient) -> None:
    for path in ("/livez", "/nowhere", "/"):
        response = await client.get(path)
        assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])
        assert float(response.headers["x-total-time"]) >= 0


async def test_the_id_of_a_client_is_kept_if_it_is_one(client: httpx.AsyncClient) -> None:
    given = {"x-request-id": "a-1.B_2:3"}
    assert (await client.get("/livez", headers=given)).headers["x-request-id"] == "a-1.B_2:3"
    for odd in (b"", b"a b", b"a\tb", b"x" * 129, "ü".encode()):
        answer = await client.get("/livez", headers={b"x-request-id": odd})
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_a_request_is_one_line_without_its_text(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "service.access"):
        await client.get("/livez")
        await client.post("/translate?q=geheim", params={"q": "geheim", **DE_EN})
    (record,) = [r for r in caplog.records if r.name == "service.access"]
    assert record.getMessage() == "POST /translate"
    assert vars(record)["status"] == 200
    assert vars(record)["milliseconds"] > 0
    assert "geheim" not in str(vars(record))


async def test_a_bug_is_answered_and_logged_and_tells_nothing(
    service: Service,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(service.translator, "translate", broken)
    response = await client.post(
        "/translate", json={"q": "a", **DE_EN}, headers={"x-request-id": "r1"}
    )
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; it was logged as request r1"}
    assert response.headers["x-request-id"] == "r1"
    assert any("a secret" in (record.exc_text or "") for record in caplog.records)


async def test_a_body_that_announces_too_much_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/translate", content=b"x" * 70_000)
    assert response.status_code == 413
    assert response.json() == {"error": "the body is too large; at most 65536 bytes are accepted"}


async def test_a_body_that_grows_too_large_is_refused(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b"x" * 1000

    for content_type in ("application/json", "application/x-www-form-urlencoded"):
        response = await client.post(
            "/translate", content=pieces(), headers={"content-type": content_type}
        )
        assert response.status_code == 413
        assert "at most 65536 bytes" in response.json()["error"]
