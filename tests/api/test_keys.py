from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pydantic import SecretStr

from service.settings import Settings
from tests.api.answers import DE_EN
from tests.support.asgi import connected

TEXT = {"q": "Hallo", **DE_EN}
ADMIN = {"authorization": "Bearer operator"}


async def translated(client: httpx.AsyncClient, key: str) -> int:
    response = await client.post("/translate", json=TEXT, headers={"x-api-key": key})
    return response.status_code


async def test_operator_adds_limits_rotates_and_removes_keys(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(settings, api_keys="required", admin_key=SecretStr("operator")) as client:
        new = {"name": "weblate", "characters_per_month": 1000}
        added = await client.post("/admin/keys", json=new, headers=ADMIN)
        assert added.status_code == 201
        first = added.json()["key"]
        assert await translated(client, first) == 200
        assert (await client.post("/admin/keys", json=new, headers=ADMIN)).status_code == 409

        soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        rotate = "/admin/keys/weblate/rotate"
        second = await client.post(rotate, json={"old_expire": soon}, headers=ADMIN)
        assert [await translated(client, key) for key in (first, second.json()["key"])] == [200] * 2
        third = (await client.post(rotate, headers=ADMIN)).json()["key"]
        assert [await translated(client, key) for key in (first, third)] == [403, 200]

        limits = {"requests_per_minute": 1, "bulk": True}
        limited = await client.put("/admin/keys/weblate", json=limits, headers=ADMIN)
        assert limited.status_code == 204
        listed = (await client.get("/admin/keys", headers=ADMIN)).json()["keys"]
        (key,) = listed
        assert key["requests_per_minute"] == 1
        assert key["characters_per_month"] is None
        assert key["bulk"] is True
        assert first not in str(listed)

        assert (await client.delete("/admin/keys/weblate", headers=ADMIN)).status_code == 204
        assert (await client.delete("/admin/keys/weblate", headers=ADMIN)).status_code == 404
        assert await translated(client, third) == 403
        assert not any(key in caplog.text for key in (first, third))


async def test_usage_of_a_month_is_listed_and_exported(settings: Settings) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    async with connected(settings, api_keys="required", admin_key=SecretStr("operator")) as client:
        added = await client.post("/admin/keys", json={"name": "weblate"}, headers=ADMIN)
        assert await translated(client, added.json()["key"]) == 200
        while not (got := (await client.get("/admin/usage", headers=ADMIN)).json())["usage"]:
            pass
        used = {"name": "weblate", "characters": len(TEXT["q"]), "documents": 0}
        assert got == {"month": month, "usage": [used]}
        exported = await client.get("/admin/usage?format=csv", headers=ADMIN)
        assert exported.text.splitlines()[1] == f"{month},weblate,{used['characters']},0"
        (day,) = (await client.get("/admin/usage/days", headers=ADMIN)).json()["usage"]
        assert day == {**used, "day": f"{datetime.now(UTC):%Y-%m-%d}"}
        exported = await client.get("/admin/usage/days?format=csv", headers=ADMIN)
        assert exported.text.splitlines()[1].startswith(f"{day['day']},weblate,")
        for path in ("/admin/usage", "/admin/usage/days"):
            empty = await client.get(f"{path}?month=2020-01", headers=ADMIN)
            assert empty.json()["usage"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/admin/keys", {}),
        ("POST", "/admin/keys", {"name": "a b"}),
        ("POST", "/admin/keys", {"name": "weblate", "requests_per_minute": -1}),
        ("POST", "/admin/keys", {"name": "weblate", "expires": "tomorrow"}),
        ("POST", "/admin/keys", {"name": "weblate", "expires": "2020-01-01T00:00:00Z"}),
        ("POST", "/admin/keys", {"name": "weblate", "limit": 5}),
        ("PUT", "/admin/keys/weblate", {"characters_per_month": "many"}),
        ("GET", "/admin/usage?month=november", None),
    ],
)
async def test_wrong_fields_are_refused(
    settings: Settings, method: str, path: str, body: object
) -> None:
    async with connected(settings, admin_key=SecretStr("operator")) as client:
        response = await client.request(method, path, json=body, headers=ADMIN)
        assert response.status_code == 400
        assert response.json()["error"]
        refused = await client.request(method, path, json=body)
        assert refused.status_code == 403
