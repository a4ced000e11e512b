"""Main program of a worker: the translation routes with a decoder in the owner, and a proxy.

``python -m service.workers.worker LISTENER SOCKET PARENT``, with the settings of the service.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.deepl.memories import UPLOAD as MEMORY_UPLOAD
from service.api.dialects.google import PATH as GOOGLE
from service.api.draining import Drain
from service.api.middleware import with_single_slashes
from service.bootstrap import UPLOADS, build_front
from service.helpers.program import die_with
from service.observability.logging import configure
from service.server.http_protocol import most_connections
from service.server.process import prepare_process, spare_what_stays
from service.server.server import serve
from service.settings import Settings
from service.workers.owner_link import OpenModel
from service.workers.proxy import Proxy

TRANSLATED = frozenset(
    {"/translate", "/v2/translate", "/imme", GOOGLE, f"{GOOGLE}/"},
)
"""Paths whose requests a worker answers itself."""
UNLIMITED = frozenset({*UPLOADS, MEMORY_UPLOAD, "/models/reload"})
"""Paths whose requests may take longer than the time limit of requests."""


def main(listener: str, owner: str, parent: str) -> int:
    """``listener`` is an inherited file descriptor, ``owner`` a Unix socket, ``parent`` a process.

    Returns the exit code.
    """
    die_with(int(parent))
    settings = Settings.from_environment()
    prepare_process()
    configure(settings.log_level, settings.log_format)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    drain = Drain()
    app = WorkerApp(settings, Path(owner), drain)
    spare_what_stays()
    return serve(
        app,
        drain,
        socket.socket(fileno=int(listener)),
        shutdown_seconds=settings.shutdown_seconds,
        # The owner reloads the models.
        on_hangup=lambda: None,
        trusted_proxies=settings.trusted_proxies,
        accepts=1 if settings.workers > 1 else None,
    )


class WorkerApp:
    """ASGI app: the translation routes of the service, and the proxy for all other requests."""

    def __init__(
        self,
        settings: Settings,
        owner: Path,
        drain: Drain,
        open_model: OpenModel | None = None,
    ) -> None:
        # The owner has a connection for each request that is passed on by any worker.
        most = most_connections() // max(1, settings.workers)
        self.proxy = Proxy(owner, settings.request_seconds, UNLIMITED, most=most)
        self.front = build_front(settings, owner, drain, open_model)
        self._tracing = bool(settings.tracing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":

            async def send_closed(message: Message) -> None:
                # The server ends the event loop after this message.
                if message["type"].startswith("lifespan.shutdown"):
                    await self.proxy.close()
                await send(message)

            await self.front.app(scope, receive, send_closed)
            return
        scope = with_single_slashes(scope)
        here = scope["path"] in TRANSLATED and self._answers()
        app: ASGIApp = self.front.app if here else self.proxy

        async def send_last(message: Message) -> None:
            # This process ends once the owner has drained, and must then have no client that
            # sends a further request.
            if message["type"] == "http.response.start" and self.front.link.leaving:
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await app(scope, receive, send_last)

    def _answers(self) -> bool:
        # With tracing, spans of the engine belong to those of the request, which the owner has.
        return self.front.link.ready and not self._tracing


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
