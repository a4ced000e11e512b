"""What uvicorn's HTTP protocol leaves open: heads that never end, and nonsense after an answer."""

from __future__ import annotations

import asyncio
from typing import ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """Waits ``head_seconds`` for the whole head of a request, and then closes the connection.

    uvicorn waits for ever, so that a few thousand clients who each send half a line could take
    every file descriptor the process may open. Bodies have a limit of their own; see ``BodyLimit``.
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
            # What cannot be understood is answered with 400, unless an answer has begun.
            self.transport.close()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """From the connection, or the first byte, to the end of a head; bytes in between or not."""
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
