"""Tests of the HTTP connection without a socket."""

from __future__ import annotations

import h11

from service.server.http_protocol import _Connection


def test_head_of_a_response_is_sent_with_the_first_part_of_its_body() -> None:
    connection = _Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    while not isinstance(connection.next_event(), h11.EndOfMessage):
        pass
    head = h11.Response(status_code=200, headers=[("content-length", "4")])
    assert connection.send(head) == b""
    first = connection.send(h11.Data(data=b"ab"))
    assert first is not None
    assert first.startswith(b"HTTP/1.1 200")
    assert first.endswith(b"\r\n\r\nab")
    assert connection.send(h11.Data(data=b"cd")) == b"cd"
    assert connection.send(h11.EndOfMessage()) == b""
