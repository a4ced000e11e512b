from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from service.api import pages

STATIC = Path(pages.__file__).parent / "static"
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


def test_page_loads_every_module_and_style_sheet_without_waiting_for_imports() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    loaded = re.findall(r'(?:src|"modulepreload" href|"stylesheet" href)="static/(.+?)"', page)
    files = {path.name for path in (*STATIC.glob("*.js"), *STATIC.glob("*.css"))}
    # The documentation of the API has two files of its own.
    assert sorted(loaded) == sorted({*files, "icon.svg"} - {"docs.css", "docs.js"})


async def test_static_files_are_compressed_and_revalidated(client: httpx.AsyncClient) -> None:
    address = "/static/strings.js"
    plain = await client.get(address, headers={"accept-encoding": "identity"})
    packed = await client.get(address, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    tag = {"if-none-match": packed.headers["etag"]}
    assert (await client.get(address, headers=tag)).status_code == 304


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


async def test_opensearch_description_has_the_address_of_the_service(
    client: httpx.AsyncClient,
) -> None:
    response = await client.get("/opensearch.xml")
    assert response.headers["content-type"] == "application/opensearchdescription+xml"
    root = ElementTree.fromstring(response.text)
    (url,) = root.iter("{http://a9.com/-/spec/opensearch/1.1/}Url")
    assert url.get("template") == f"{client.base_url}/?text={{searchTerms}}".replace("//?", "/?")


def test_no_file_of_the_page_is_long_but_the_table_of_strings() -> None:
    for path in set(STATIC.iterdir()) - {STATIC / "strings.js"}:
        assert len(path.read_text("utf-8").splitlines()) < 300, path.name
