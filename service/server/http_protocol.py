"""uvicorn HTTP protocol with a timeout for request heads, and no error on trailing garbage."""

from __future__ import annotations

import asyncio
from typing import ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """Closes the connection if a request head is incomplete after ``head_seconds``.

    uvicorn waits for ever, so a few thousand clients that each send half a line could use up the
    process's file descriptors. ``BodyLimit`` limits bodies.
    """

    head_seconds: ClassVar[float] = 20.0

    @property
    def has_asked(self) -> bool:
        """Whether a request has come over this connection."""
        return self.cycle is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._waiting: asyncio.TimerHandle | None = None
        super().connection_made(cast(asyncio.Transport, transport))
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            # uvicorn answers invalid bytes with 400, which fails once a response has begun.
            self.transport.close()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """Start the timer at the connection or first byte; stop it at the end of the head."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()
