"""Main program of a worker: answers plain translations over HTTP, and tunnels other requests.

``python -m service.workers.worker LISTENER SOCKET PARENT``, with the settings of the service.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.draining import Drain
from service.helpers.program import die_with
from service.observability.logging import configure
from service.server.http_protocol import PatientProtocol
from service.server.process import prepare_process, spare_what_stays
from service.server.server import serve
from service.settings import Settings
from service.workers.front import open_front
from service.workers.tunnel import Tunnel


def main(listener: str, owner: str, parent: str) -> int:
    """``listener`` is an inherited file descriptor, ``owner`` a Unix socket, ``parent`` a process.

    Returns the exit code.
    """
    die_with(int(parent))
    settings = Settings.from_environment()
    prepare_process()
    configure(settings.log_level, settings.log_format)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # The owner has a connection for each request of every worker, and the same limit of files.
    PatientProtocol.most_share = settings.workers
    drain = Drain()
    app = _Front(settings, Path(owner), drain)
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


class _Front:
    """ASGI app of a worker: a lifespan around the app that ``open_front`` makes."""

    def __init__(self, settings: Settings, owner: Path, drain: Drain) -> None:
        self._opening = open_front(settings, owner, Tunnel(owner), drain)
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            assert self._app is not None
            await self._app(scope, receive, send)
            return
        await receive()
        async with self._opening as self._app:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
