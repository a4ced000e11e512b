"""ASGI middleware for Ray Serve: 503 for a lost replica, and route prefixes.

Ray's proxy calls ``middlewares`` if the environment variable
``RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`` is ``service.ray.proxy:middlewares``. ``UnderPrefix``
wraps the app. Imports neither Ray nor the service, since the proxy serves every application of a
cluster.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOST = "the replica that worked on this was lost; try again"
_RETRY_SECONDS = 1


def middlewares() -> list[Middleware]:
    return [Middleware(RetryableLoss)]


class RetryableLoss:
    """Answers 503 with ``Retry-After`` if a replica died before it began to answer.

    Ray's proxy then sends no response, which its server turns into a bare 500.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        await self.app(scope, receive, watched)
        if started:
            return
        headers = {"retry-after": str(_RETRY_SECONDS), "access-control-allow-origin": "*"}
        # DeepL's clients read "message", all other clients "error".
        answer = JSONResponse({"error": _LOST, "message": _LOST}, 503, headers)
        await answer(scope, receive, send)


class UnderPrefix:
    """Removes the route prefix, so that the app sees the same paths as at the root.

    The prefix goes to ``app_root_path``, from which Starlette builds links. The app's
    ``X-Request-ID`` is dropped from the response where Ray's proxy adds the same header.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        prefix = scope.get("root_path", "").rstrip("/")
        path = scope["path"]
        if prefix and path.startswith(prefix + "/"):
            scope = {**scope, "path": path[len(prefix) :], "root_path": "", "app_root_path": prefix}
            scope["raw_path"] = scope.get("raw_path", path.encode()).removeprefix(prefix.encode())
        asked_as = Headers(scope=scope).get("x-request-id")

        async def once(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("x-request-id") == asked_as:
                    del headers["x-request-id"]
            await send(message)

        await self.app(scope, receive, once)
