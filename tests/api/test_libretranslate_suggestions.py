from __future__ import annotations

import httpx
import pytest

from tests.api.answers import refused

SUGGESTION = {"q": "Ein Hund.", "s": "A dog.", "source": "de", "target": "en"}


async def test_suggestion_is_accepted_where_enabled(suggesting: httpx.AsyncClient) -> None:
    for sent in ({"json": SUGGESTION}, {"data": SUGGESTION}):
        response = await suggesting.post("/suggest", **sent)  # type: ignore[arg-type]
        assert (response.status_code, response.json()) == (200, {"success": True})
    assert (await suggesting.get("/frontend/settings")).json()["suggestions"] is True


async def test_suggestions_are_disabled_by_default(client: httpx.AsyncClient) -> None:
    message = await refused(client.post("/suggest", json=SUGGESTION), 403)
    assert message == "suggestions are disabled on this server"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        *(({name: ""}, f"Invalid request: missing {name} parameter") for name in SUGGESTION),
        ({"s": " "}, "Invalid request: s parameter"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "auto"}, "auto is not supported"),
        ({"s": "x" * 10_001}, "Invalid request: s parameter"),
    ],
)
async def test_invalid_suggestion_is_refused(
    suggesting: httpx.AsyncClient, wrong: dict[str, str], error: str
) -> None:
    message = await refused(suggesting.post("/suggest", json={**SUGGESTION, **wrong}))
    assert message.startswith(error)
