from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import httpx
import pytest

from service.api import pages

STATIC = Path(pages.__file__).parent / "static"
IMPORT = re.compile(r'^import .* from "\./([a-z]+\.js)";$', re.MULTILINE)
LATER = re.compile(r'[ \[(]import\("\./([a-z]+\.js)"\)')
PRELOAD = re.compile(r'<link rel="modulepreload" href="static/([a-z]+\.js)">')
ADDRESS = re.compile(r"""(?:src|href|url)\s*[=:(]\s*["']?([^"'\s)>]+)""")
ELSEWHERE = re.compile(r"https?:|^//")


@pytest.mark.parametrize("page", ["/", "/docs"])
async def test_pages_load_only_own_resources(client: httpx.AsyncClient, page: str) -> None:
    response = await client.get(page)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    addresses = set(ADDRESS.findall(response.text))
    assert len(addresses) >= 3
    for address in addresses:
        assert not ELSEWHERE.search(address), address
        assert not address.startswith("/"), "a proxy may put the service below a path"
        assert (await client.get(f"/{address}")).status_code == 200, address


@pytest.mark.parametrize("file", sorted(path.name for path in STATIC.iterdir()))
async def test_static_file_has_no_external_address(client: httpx.AsyncClient, file: str) -> None:
    response = await client.get(f"/static/{file}")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"
    # An XML namespace is not an address.
    text = response.text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|//[a-z]+\.", text)


async def test_all_javascript_modules_exist_and_are_imported(client: httpx.AsyncClient) -> None:
    modules = [path for path in STATIC.iterdir() if path.suffix == ".js"]
    sources = [path.read_text("utf-8") for path in modules]
    imported = {name for each in (IMPORT, LATER) for text in sources for name in each.findall(text)}
    assert len(imported) > 10
    for name in imported:
        response = await client.get(f"/static/{name}")
        assert response.status_code == 200, name
        assert "javascript" in response.headers["content-type"]
    named = set(ADDRESS.findall((STATIC / "index.html").read_text("utf-8")))
    started = {address.removeprefix("static/") for address in named}
    assert {path.name for path in modules} == imported | {n for n in started if n.endswith(".js")}


def test_modules_of_the_start_are_preloaded_and_no_others() -> None:
    needed: set[str] = set()
    waiting = {"page.js"}
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= set(IMPORT.findall((STATIC / name).read_text("utf-8"))) - needed
    preloaded = PRELOAD.findall((STATIC / "index.html").read_text("utf-8"))
    assert sorted(preloaded) == sorted(needed - {"page.js"})


async def test_content_security_policy_allows_only_own_resources(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    assert directives.pop("default-src") == "'none'"
    assert directives.pop("require-trusted-types-for") == "'script'"
    assert set(directives.values()) == {"'self'", "'none'"}


async def test_api_page_allows_its_own_scripts_by_hash(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs")
    policy = response.headers["content-security-policy"]
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    scripts = re.findall(r"<script>(.*?)</script>", response.text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert scripts
    assert directives["script-src"].split() == ["'self'", *(f"'sha256-{h}'" for h in hashes)]
    assert directives["default-src"] == "'none'"


def test_no_file_of_the_page_is_long_but_the_table_of_strings() -> None:
    for path in set(STATIC.iterdir()) - {STATIC / "strings.js"}:
        assert len(path.read_text("utf-8").splitlines()) < 300, path.name


async def test_openapi_document_describes_all_routes(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert set(document["paths"]) >= {
        *("/translate", "/languages", "/detect", "/translate_file", "/frontend/settings"),
        *("/translations/{id}/attention", "/translations/{id}/alignment", "/attention", "/score"),
        *("/models", "/models/reload", "/livez", "/readyz", "/health", "/metrics"),
    }
    assert not {"/", "/docs", "/static"} & set(document["paths"]), "pages are for people"
    translate = document["paths"]["/translate"]["post"]
    assert set(translate["requestBody"]["content"]) == {
        *("application/json", "application/x-www-form-urlencoded", "multipart/form-data"),
    }
    schema = translate["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["q", "source", "target"]
    assert "beam_size" in schema["properties"]
    assert {"200", "400", "403", "413", "429", "500", "503", "504"} <= set(translate["responses"])


async def test_head_request_for_the_page_returns_its_length(
    client: httpx.AsyncClient,
) -> None:
    head, page = await client.head("/"), await client.get("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == page.headers["content-length"]
