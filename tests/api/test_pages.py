from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from service.api import pages
from service.api.page_bundle import joined_modules

STATIC = Path(pages.__file__).parent / "static"
IMPORT = re.compile(r'^import .* from "\./([a-z]+\.js)";$', re.MULTILINE)
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


def test_every_module_and_style_sheet_is_in_a_bundle_or_on_the_page() -> None:
    sources = {path.name: path.read_text("utf-8") for path in STATIC.glob("*.js")}
    used = {name for text in sources.values() for name in IMPORT.findall(text)} | {"page.js"}
    page = (STATIC / "index.html").read_text("utf-8")
    assert set(sources) == used | set(re.findall(r'src="static/([a-z]+\.js)"', page))
    assert sorted(path.name for path in STATIC.glob("*.css")) == sorted(pages._STYLES)
    for path in set(STATIC.iterdir()) - {STATIC / "strings.js"}:
        assert len(path.read_text("utf-8").splitlines()) < 300, path.name


async def test_bundles_have_all_files_and_are_compressed_and_revalidated(
    client: httpx.AsyncClient,
) -> None:
    for name, kind, suffix in (("js", "javascript", "*.js"), ("css", "css", "*.css")):
        address = f"/static/page.bundle.{name}"
        plain = await client.get(address, headers={"accept-encoding": "identity"})
        assert kind in plain.headers["content-type"]
        for path in set(STATIC.glob(suffix)) - {STATIC / "theme.js"}:
            assert path.read_text("utf-8").splitlines()[0] in plain.text, path.name
        packed = await client.get(address, headers={"accept-encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.text == plain.text
        assert int(packed.headers["content-length"]) < len(plain.content) / 2
        tag = {"if-none-match": plain.headers["etag"]}
        assert (await client.get(address, headers=tag)).status_code == 304


def test_modules_are_joined_in_the_order_of_their_imports(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { one as own } from "./b.js";\nown();\n')
    (tmp_path / "b.js").write_text("const two = 2;\nexport function one() { return two; }\n")
    joined = joined_modules(tmp_path, "a.js")
    assert joined.index("function one") < joined.index('const { one: own } = modules["b.js"];')
    assert "return { one };" in joined


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import * as b from "./b.js";', "no import or export"),
        ("export default 1;", "no import or export"),
        ('const b = import("./b.js");', "no import or export"),
        ('import { a } from "./a.js";', "a.js imports a.js: modules import each other"),
    ],
)
def test_module_that_cannot_be_joined_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.js").write_text(text)
    with pytest.raises(ValueError, match=message):
        joined_modules(tmp_path, "a.js")


async def test_content_security_policy_allows_only_own_resources_and_scripts_by_hash(
    client: httpx.AsyncClient,
) -> None:
    head, page = await client.head("/"), await client.get("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == page.headers["content-length"]
    policy = page.headers["content-security-policy"]
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    assert directives.pop("default-src") == "'none'"
    assert directives.pop("require-trusted-types-for") == "'script'"
    assert set(directives.values()) == {"'self'", "'none'"}
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
