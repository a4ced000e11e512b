"""Robustness tests with invalid HTTP: the server answers 4xx or closes, and keeps serving."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.server import Server, running
from tests.support.toy import put_bundle
from tests.support.worker_processes import WORKERS

pytestmark = pytest.mark.slow

GOOD = json.dumps({"q": "hallo", "source": "de", "target": "en"}).encode()
POST = b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
WITH_LENGTH = POST + b"content-length: %d\r\n\r\n"
WHOLE = WITH_LENGTH % len(GOOD) + GOOD


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bundles = tmp_path_factory.mktemp("protocol") / "bundles"
    put_bundle(bundles, "shout-de-en", "de", "en")
    patience = ("--head-seconds", "0.5", "--body-seconds", "0.5")
    with running(bundles, *patience, max_body_bytes=65_536) as server:
        yield server
        assert server.process.poll() is None
        assert "Traceback" not in server.log.read_text(encoding="utf-8")


def talk(server: Server, *pieces: bytes, ending: bool = False) -> list[int]:
    """Send ``pieces``; returns all response statuses until the server closes."""
    heard = b""
    # Worker processes have the default patience with bodies.
    seconds = 30 if WORKERS else 10
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection,
        # The server may close before everything is sent.
        contextlib.suppress(ConnectionError),
    ):
        for piece in pieces:
            connection.sendall(piece)
        if ending:
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65_536):
            heard += piece
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


def ends(request: bytes) -> bytes:
    """The request with ``connection: close``."""
    return request.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n", 1)


def answers(server: Server) -> bool:
    return talk(server, ends(WHOLE)) == [200]


REFUSED = {
    "nonsense": b"hallo\r\n\r\n",
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "zeros": bytes(5000),
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "another version": b"GET /livez HTTP/30\r\nhost: x\r\n\r\n",
    "HTTP/2 by knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a huge header": b"GET /livez HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 400_000 + b"\r\n\r\n",
    "many headers": b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 80_000 + b"\r\n",
    "a huge path": b"GET /" + b"x" * 400_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    "a null byte in a header": b"GET /livez HTTP/1.1\r\nhost: x\r\nx: a\x00b\r\n\r\n",
    "a null byte in the path": b"GET /li\x00vez HTTP/1.1\r\nhost: x\r\n\r\n",
    "an escaped null byte": ends(b"GET /li%00vez HTTP/1.1\r\nhost: x\r\n\r\n"),
    "a path that is no UTF-8": ends(b"GET /%ff%fe HTTP/1.1\r\nhost: x\r\n\r\n"),
    "raw bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
    "a query that is no UTF-8": ends(b"POST /translate?q=%ff%00 HTTP/1.1\r\nhost: x\r\n\r\n"),
    "an unknown method": ends(b"BREW /translate HTTP/1.1\r\nhost: x\r\n\r\n"),
    "a small method": ends(b"get /livez HTTP/1.1\r\nhost: x\r\n\r\n"),
    "TRACE": ends(b"TRACE /translate HTTP/1.1\r\nhost: x\r\n\r\n"),
    "CONNECT": ends(b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n"),
    "no length": ends(POST + b"\r\n"),
    "a length below zero": POST + b"content-length: -1\r\n\r\n",
    "a length in words": POST + b"content-length: ten\r\n\r\n",
    "two lengths": POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhallo",
    "length and chunks": ends(
        CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 3\r\n\r\n") + b"zz\r\n"
    ),
    "a chunk of no length": CHUNKED + b"zz\r\nhallo\r\n0\r\n\r\n",
    "a chunk that is too long": CHUNKED + b"5\r\nhallohallo\r\n0\r\n\r\n",
    "an endless chunk length": CHUNKED + b"0" * 400_000,
    "another coding": POST + b"transfer-encoding: gzip\r\n\r\n",
    "a body of zeros": ends(WITH_LENGTH % 100) + bytes(100),
    "a body that is no UTF-8": ends(WITH_LENGTH % 9) + b'{"q":"\xff"}'[:9],
    "lone surrogates": ends(WITH_LENGTH % 46) + b'{"q":"\\ud800", "source": "de", "target": "en"}',
    "a deep body": ends(WITH_LENGTH % 60_000) + b"[" * 60_000,
    "a number too large": ends(WITH_LENGTH % 10_000) + b'{"q":' + b"9" * 9_995,
    "an unknown charset": ends(
        POST.replace(b"json", b"json; charset=klingon") + b"content-length: 2\r\n\r\n{}"
    ),
    "a form that is none": ends(
        b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\n"
        b"content-length: 9\r\n\r\n--x\r\n\x00\xff\r\n"
    ),
    "a form without a boundary": ends(
        b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data\r\n"
        b"content-length: 2\r\n\r\nxx"
    ),
    "an expectation and no body": POST + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n",
    "an expectation of something else": ends(
        POST + b"expect: the-unexpected\r\ncontent-length: 2\r\n\r\n{}"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_request_is_refused_with_4xx(server: Server, name: str) -> None:
    statuses = [status for status in talk(server, REFUSED[name]) if status != 100]
    assert all(400 <= status < 500 for status in statuses), statuses
    assert answers(server)


SLOW = {
    "nothing": b"",
    "half a line": b"POST /trans",
    "half a head": POST,
    "no body": WITH_LENGTH % 10,
    "half a body": WITH_LENGTH % 10 + b"12345",
    "most of a body": WITH_LENGTH % 60_000 + bytes(50_000),
    "half a chunk": CHUNKED + b"a\r\nhallo",
    "no last chunk": CHUNKED + b"5\r\nhallo\r\n",
}


@pytest.mark.skipif(WORKERS > 0, reason="the time of the test server does not reach workers")
@pytest.mark.parametrize("name", SLOW)
def test_incomplete_request_times_out(server: Server, name: str) -> None:
    assert talk(server, SLOW[name]) in ([], [408])
    assert answers(server)


@pytest.mark.parametrize("name", SLOW)
def test_disconnect_does_not_affect_later_requests(server: Server, name: str) -> None:
    talk(server, SLOW[name], ending=True)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(SLOW[name])
    assert answers(server)


@pytest.mark.skipif(WORKERS > 0, reason="the time of the test server does not reach workers")
def test_slow_request_head_is_closed_after_the_time_limit(server: Server) -> None:
    drops = (bytes([byte]) for byte in itertools.chain(POST, itertools.repeat(ord("x"))))

    def dripping() -> Iterator[bytes]:
        for drop in drops:
            time.sleep(0.01)
            yield drop

    assert talk(server, *itertools.islice(dripping(), 120)) == []
    assert answers(server)


def test_pipelined_requests_are_all_answered(server: Server) -> None:
    assert talk(server, WHOLE * 20 + ends(WHOLE)) == [200] * 21


def test_nonsense_after_a_request_does_not_affect_later_requests(server: Server) -> None:
    first, *later = talk(server, WHOLE + b"nonsense\r\n\r\n")
    assert (first, later) in ((200, [400]), (200, []), (400, []))
    assert answers(server)


def test_expect_100_continue_is_answered(server: Server) -> None:
    head = ends(POST) + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(GOOD)
    assert talk(server, head, GOOD) == [100, 200]


def test_body_in_tiny_chunks_is_refused_before_all_of_it_is_read(server: Server) -> None:
    head = ends(POST) + b"transfer-encoding: chunked\r\n\r\n"
    assert talk(server, head + b"1\r\n{\r\n" * 5_000) == [400]
    assert answers(server)


def test_unknown_upgrade_is_ignored_and_not_logged(server: Server) -> None:
    head = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\n"
    assert talk(server, head + b"upgrade: websocket\r\n\r\n") == [200]
    assert "pgrade" not in server.log.read_text(encoding="utf-8")


def test_requests_after_an_ignored_upgrade_are_answered(server: Server) -> None:
    upgrading = WHOLE.replace(b"host: x\r\n", b"host: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n")
    probe = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    assert talk(server, upgrading, probe + probe, ends(WHOLE)) == [200] * 4


def test_thousands_of_pipelined_upgrades_are_all_answered(server: Server) -> None:
    probe = b"GET /livez HTTP/1.1\r\nhost:x\r\nconnection:upgrade\r\nupgrade:x\r\n\r\n"
    assert talk(server, probe * 3_000 + ends(WHOLE)) == [200] * 3_001
    assert "RecursionError" not in server.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("keep", [True, False])
def test_head_requests_are_answered_without_a_body(server: Server, keep: bool) -> None:
    probe = b"HEAD /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    assert talk(server, probe * keep, ends(probe)) == [200] * (1 + keep)


def test_endless_trailer_is_refused(server: Server) -> None:
    trailer = CHUNKED + b"2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 200_000
    assert talk(server, trailer) in ([], [400])
    assert answers(server)


def test_idle_connections_do_not_block_requests(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert answers(server)


def damaged(whole: bytes, seed: int) -> bytes:
    """The request with bytes removed, repeated, changed or inserted."""
    rng = random.Random(seed)
    request = bytearray(whole)
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randrange(len(request) + 1), rng.randint(1, 20)
        match rng.randrange(4):
            case 0:
                del request[at : at + length]
            case 1:
                request[at:at] = request[at : at + length] * rng.randint(1, 3)
            case 2:
                request[at : at + 1] = rng.randbytes(1)
            case 3:
                request[at:at] = rng.choice((b"\r\n", b"\x00", b"\xff\xfe", b": ", b"0\r\n\r\n"))
    return bytes(request)


CHUNKS = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(whole=st.sampled_from([WHOLE, CHUNKS]), seed=st.integers(0, 2**32))
def test_damaged_request_is_never_a_5xx(server: Server, whole: bytes, seed: int) -> None:
    statuses = talk(server, damaged(whole, seed), ending=True)
    assert all(status < 500 for status in statuses), statuses
    assert answers(server)
