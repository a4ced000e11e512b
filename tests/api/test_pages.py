from __future__ import annotations

import re

import httpx
import pytest

pytestmark = pytest.mark.anyio
ADDRESS = re.compile(r"""(?:src|href|url)\s*[=:(]\s*["']?([^"'\s)>]+)""")
ELSEWHERE = re.compile(r"https?:|^//")


@pytest.mark.parametrize("page", ["/", "/docs"])
async def test_a_page_and_all_it_needs_come_from_here(client: httpx.AsyncClient, page: str) -> None:
    response = await client.get(page)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    addresses = set(ADDRESS.findall(response.text))
    assert len(addresses) >= 3
    for address in addresses:
        assert not ELSEWHERE.search(address), address
        assert not address.startswith("/"), "a proxy may put the service below a path"
        assert (await client.get(f"/{address}")).status_code == 200, address


@pytest.mark.parametrize("file", ["index.html", "style.css", "translate.js"])
async def test_the_page_refers_to_nothing_elsewhere(client: httpx.AsyncClient, file: str) -> None:
    response = await client.get(f"/static/{file}")
    assert response.status_code == 200
    assert not re.search(r"https?://", response.text)


async def test_the_page_may_load_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.headers["content-security-policy"].startswith("default-src 'self'")


async def test_the_api_is_described(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        *("/translate", "/languages", "/models"),
        *("/livez", "/readyz", "/health", "/metrics"),
    }
    translate = document["paths"]["/translate"]["post"]
    assert set(translate["requestBody"]["content"]) == {
        *("application/json", "application/x-www-form-urlencoded", "multipart/form-data"),
    }
    schema = translate["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["q", "source", "target"]
    assert "beam_size" in schema["properties"]
    assert set(translate["responses"]) == {"200", "400", "413", "500", "503"}
