"""Web pages: the translation page and Swagger UI.

They load nothing from other hosts, so they work without internet access. All addresses are
relative, so they work behind the path prefix of a proxy.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import quoteattr

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import Scope

from service.api.addresses import address_of_service

_STATIC = Path(__file__).parent / "static"
_IN_HEAD = b"""<link rel="stylesheet" href="static/docs.css">
<script src="static/docs.js"></script>
</head>"""
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)

_OPENSEARCH = """<?xml version="1.0" encoding="UTF-8"?>
<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/">
  <ShortName>Dragoman</ShortName>
  <Description>Translate with Dragoman</Description>
  <InputEncoding>UTF-8</InputEncoding>
  <Image type="image/svg+xml">{address}static/icon.svg</Image>
  <Url type="text/html" template="{address}?text={{searchTerms}}"/>
</OpenSearchDescription>
"""

# After an upgrade, a browser must not mix old and new modules of the page.
_ASK_EACH_TIME = {"cache-control": "no-cache"}

_OWN_THINGS_ONLY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class _PageFiles(StaticFiles):
    """Static files that browsers cache and revalidate before each use."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_ASK_EACH_TIME)
        response.headers["x-content-type-options"] = "nosniff"
        return response


def add_pages(app: FastAPI, public_url: str) -> None:
    app.mount("/static", GZipMiddleware(_PageFiles(directory=_STATIC)), name="static")
    swagger_ui = Path(str(files("fastapi_offline"))) / "static"
    swagger_page = _swagger_page(app.title)
    app.mount("/swagger-ui", StaticFiles(directory=swagger_ui), name="swagger-ui")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers=_OWN_THINGS_ONLY | _ASK_EACH_TIME)

    @app.get("/opensearch.xml", include_in_schema=False)
    async def opensearch(request: Request) -> Response:
        """Lets browsers offer the page as a search engine. Its address must be absolute."""
        address = address_of_service(request, public_url)
        text = _OPENSEARCH.format(address=quoteattr(f"{address}/")[1:-1])
        return Response(text, media_type="application/opensearchdescription+xml")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(swagger_page, headers=_swagger_policy(swagger_page))


def _swagger_page(title: str) -> bytes:
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=f"{title}: API",
        swagger_js_url="swagger-ui/swagger-ui-bundle.js",
        swagger_css_url="swagger-ui/swagger-ui.css",
        swagger_favicon_url="static/icon.svg",
    )
    return bytes(page.body).replace(b"<html>", b'<html lang="en">').replace(b"</head>", _IN_HEAD)


def _swagger_policy(page: bytes) -> dict[str, str]:
    """Headers that allow the scripts of the page, and the styles that Swagger UI sets."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
        for script in _INLINE_SCRIPT.findall(page)
    ]
    policy = (
        f"default-src 'none'; script-src 'self' {' '.join(hashes)}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return _OWN_THINGS_ONLY | {"content-security-policy": policy}
