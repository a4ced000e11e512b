"""Tests of the HTTP connection without a socket."""

from __future__ import annotations

from typing import Any, cast

import pytest

from service.server.http_protocol import _CONTINUE, _JoinedHead


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


def test_head_without_a_body_is_sent_when_the_connection_closes(recorder: Recorder) -> None:
    transport = _JoinedHead(cast(Any, recorder))
    transport.write(b"head")
    transport.close()
    assert (recorder.writes, transport.is_closing()) == ([b"head"], True)
