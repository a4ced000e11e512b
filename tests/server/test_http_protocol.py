"""Tests of the HTTP connection without a server process."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.server import http_protocol
from service.server.http_protocol import _CONTINUE, PatientProtocol, _JoinedHead

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
PIECE, PIECES = bytes(1 << 20), 32


class Recorder:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_head_of_a_response_is_sent_with_the_first_part_of_its_body(recorder: Recorder) -> None:
    transport = _JoinedHead(cast(Any, recorder))
    transport.write(_CONTINUE)
    assert recorder.writes == [_CONTINUE]
    transport.write(b"head")
    assert recorder.writes == [_CONTINUE]
    for part in (b"ab", _CONTINUE, b""):
        transport.write(part)
    assert recorder.writes == [_CONTINUE, b"headab", _CONTINUE, b""]
    # Without a body, it is sent when the connection closes.
    transport = _JoinedHead(cast(Any, recorder))
    transport.write(b"head")
    transport.close()
    assert (recorder.writes[-1], transport.is_closing()) == (b"head", True)


class UnreadTransport(Recorder):
    """Transport with ``buffered`` bytes that the client has not taken."""

    def __init__(self, buffered: int = 0) -> None:
        super().__init__()
        self.buffered = buffered
        self.aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def abort(self) -> None:
        self.aborted = True


class Connections:
    """Opens connections with a clock that the test sets; no timer fires by itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self._state = ServerState()
        self._config = uvicorn.Config(answer_in_pieces, lifespan="off", log_config=None)
        timer = SimpleNamespace(cancel=lambda: None)
        self._loop = SimpleNamespace(time=lambda: self.now, call_later=lambda *_: timer)

    def open(self, buffered: int = 0) -> tuple[PatientProtocol, UnreadTransport]:
        connection = PatientProtocol(self._config, self._state, {}, cast(Any, self._loop))
        transport = UnreadTransport(buffered)
        connection.connection_made(cast(Any, transport))
        return connection, transport


async def answer_in_pieces(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(PIECES):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def answer_at_once(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": PIECE * PIECES})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Its ``unread`` is what the kernel holds for each client."""
    held = SimpleNamespace(unread=0)
    monkeypatch.setattr(http_protocol, "_sent_unacknowledged", lambda _: held.unread)
    return held


def test_connection_is_aborted_once_its_client_takes_no_byte_for_the_time_limit(
    kernel: SimpleNamespace,
) -> None:
    connections = Connections()
    connection, transport = connections.open()
    connections.now = 1000.0
    connection._check_progress()
    assert not transport.aborted, "a connection with no answer to read"
    transport.buffered = 1_000
    connection._check_progress()
    connections.now += PatientProtocol.unread_seconds - 1
    connection._check_progress()
    assert not transport.aborted
    # Empty lines between requests are no progress.
    connection.data_received(b"\r\n")
    connections.now += 1
    connection._check_progress()
    assert transport.aborted


def test_client_that_takes_a_byte_within_each_time_limit_is_not_cut(
    kernel: SimpleNamespace,
) -> None:
    connections = Connections()
    connection, transport = connections.open(1_000)
    kernel.unread = 1_000
    for _ in range(20):
        connection._check_progress()
        # The transport notices nothing, because the kernel has no room for more yet.
        kernel.unread -= 1
        connections.now += PatientProtocol.unread_seconds
    connection._check_progress()
    for _ in range(20):
        # The answer goes on, so that as much waits as before.
        connections.now += PatientProtocol.unread_seconds
        connection.resume_writing()
        connection._check_progress()
    assert not transport.aborted


def test_room_is_made_by_aborting_the_answer_that_has_been_unread_longest(
    kernel: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "most_connections", lambda: 3)
    connections = Connections()
    reading, read = connections.open(1_000)
    connections.now = 1.0
    stalled, unread = connections.open(1_000)
    for connection in (reading, stalled):
        connection._check_progress()
        # The requests are in progress: their answers wait for the clients.
        connection.cycle = cast(Any, SimpleNamespace(response_complete=False))
    connections.now = 2.0
    _, idle = connections.open()
    connections.now = 3.0
    read.buffered -= 1
    _, new = connections.open()
    assert (unread.aborted, unread.closed) == (True, False)
    assert not any(other.aborted or other.closed for other in (read, idle, new))


def test_room_for_a_connection_examines_few_of_many_and_spares_those_in_use(
    kernel: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "most_connections", lambda: 300)
    connections = Connections()
    opened = []
    for number in range(300):
        connections.now = float(number)
        opened.append(connections.open())
    for connection, _ in opened[:100]:
        connection.cycle = cast(Any, SimpleNamespace(response_complete=False))
        connection._note_use()
    opened[100][0].data_received(b"")
    examined: list[PatientProtocol] = []
    monkeypatch.setattr(PatientProtocol, "_note_progress", lambda each: examined.append(each))
    for _ in range(50):
        connections.open()
    assert [number for number, (_, each) in enumerate(opened) if each.aborted] == [*range(101, 151)]
    assert len(examined) <= 50 * http_protocol._MOST_EXAMINED
    # The request ends after its connection was lost.
    lost, _ = opened[0]
    lost.cycle = None
    lost.connection_lost(ConnectionResetError())
    lost._note_use()
    assert lost not in lost._idle_ones


@pytest.mark.parametrize("app", [answer_at_once, answer_in_pieces])
async def test_unread_answer_is_given_up(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "unread_seconds", 0.1)
    state = ServerState()
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: PatientProtocol(config, state, {}), "127.0.0.1", 0, family=socket.AF_INET
    )
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        while not state.connections:
            await asyncio.sleep(0.01)
        await loop.sock_sendall(client, GET)
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)
    server.close()
    await server.wait_closed()
