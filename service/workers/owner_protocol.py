"""Server side of the frames: runs the app of the owner for the requests that workers pass on.

A protocol class for uvicorn, in place of one for HTTP. The worker has read the request with all
guards of ``service.server.http_protocol``; the app, with all its middleware, runs here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast
from urllib.parse import unquote

import uvicorn
from starlette.types import Message
from uvicorn.server import ServerState

from service.helpers.messages import Unreadable
from service.workers.frames import Frame, FrameProtocol, FrameQueue, Kind, chunks, frame

logger = logging.getLogger(__name__)

_FIELDS = 8
"""Parts of a ``REQUEST`` before its headers."""


class OwnerProtocol(FrameProtocol):
    """Answers the requests of one connection from a worker, one at a time."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        if not config.loaded:
            config.load()
        self._app = config.loaded_app
        self._state = app_state
        # uvicorn names the types of its own protocols.
        self._connections = cast(set[asyncio.Protocol], server_state.connections)
        self._tasks = server_state.tasks
        self._exchange: _Exchange | None = None
        self._closing = False

    @property
    def has_asked(self) -> bool:
        """Whether a request has come over this connection."""
        return self._exchange is not None

    def shutdown(self) -> None:
        """Close once no request is in progress."""
        self._closing = True
        if self._exchange is None or self._exchange.answered:
            self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.discard(self)
        if self._exchange is not None:
            self._exchange.received.end()

    def frame_received(self, received: Frame) -> None:
        kind, parts = received
        exchange = self._exchange
        if kind is Kind.REQUEST:
            if exchange is not None and not exchange.answered:
                raise Unreadable("a request came before the answer to the last one")
            self._exchange = _Exchange(self, _scope(parts, self._state))
            task = asyncio.get_running_loop().create_task(self._run(self._exchange))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind in (Kind.BODY, Kind.LAST) and len(parts) == 1 and exchange is not None:
            # The end of a body that the app has not read comes before the next request.
            if not exchange.answered:
                exchange.received.put(received)
        else:
            raise Unreadable(f"a worker does not send {kind.name}")

    async def _run(self, exchange: _Exchange) -> None:
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
        # Outermost: nothing above would report the exception.
        except Exception:
            logger.exception("a request of a worker failed unexpectedly")
        exchange.received.discard()
        if self._closing or not exchange.answered:
            self.transport.close()


class _Exchange:
    """``receive`` and ``send`` of one request."""

    def __init__(self, link: OwnerProtocol, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.received = FrameQueue(link.transport)
        self.answered = False
        """Whether the whole answer was written."""
        self._link = link
        self._asks = any(name == b"expect" for name, _ in scope["headers"])
        """Whether the client has to be asked for the body."""
        self._head = b""

    async def receive(self) -> Message:
        if self._asks:
            self._asks = False
            self._link.write(frame(Kind.CONTINUE))
        received = await self.received.take()
        if received is None:
            return {"type": "http.disconnect"}
        kind, (content,) = received
        return {"type": "http.request", "body": content, "more_body": kind is Kind.BODY}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [part for header in message["headers"] for part in header]
            # The head goes out with what follows it, in one write.
            self._head = frame(Kind.ANSWER, str(message["status"]).encode(), *headers)
            return
        more = message.get("more_body", False)
        for content in chunks(message.get("body", b""), more=more):
            # Before the write: the worker's next request may follow the last one at once.
            await self._link.drained()
            self._link.write(self._head + content)
            self._head = b""
        if self._head and more:
            self._link.write(self._head)
            self._head = b""
        self.answered = not more


def request_parts(scope: Any) -> list[bytes]:
    """The parts of a ``REQUEST`` frame for an ASGI scope."""
    parts = [scope["method"].encode(), scope["raw_path"], scope["query_string"]]
    parts += [scope["scheme"].encode(), scope["http_version"].encode()]
    host, port = scope["client"] or ("", 0)
    # A proxy's header may name anything.
    parts += [host.encode("utf-8", "surrogateescape"), str(port).encode()]
    own, own_port = scope["server"] or ("", 0)
    parts.append(f"{own} {own_port or 0}".encode())
    return parts + [part for header in scope["headers"] for part in header]


def _scope(parts: list[bytes], state: dict[str, Any]) -> dict[str, Any]:
    """The ASGI scope of a request; raises ``Unreadable``."""
    try:
        method, raw_path, query, scheme, version, host, port, server = parts[:_FIELDS]
        headers = parts[_FIELDS:]
        own, _, own_port = server.decode().rpartition(" ")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version.decode(),
            "method": method.decode(),
            "scheme": scheme.decode(),
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "root_path": "",
            "query_string": query,
            "headers": list(zip(headers[::2], headers[1::2], strict=True)),
            "client": (host.decode("utf-8", "surrogateescape"), int(port)) if host else None,
            "server": (own, int(own_port)) if own else None,
            "state": state.copy(),
        }
    except ValueError as error:
        raise Unreadable("a request's head is malformed") from error
