from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.helpers.messages import NUMBER, Unreadable, lengths_in, read, table_size, write


@given(st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=3))
def test_messages_round_trip(messages: list[list[bytes]]) -> None:
    stream = io.BytesIO()
    for message in messages:
        write(stream, message)
    stream.seek(0)
    assert [read(stream) for _ in messages] == messages
    assert read(stream) is None


def test_a_truncated_message_reads_as_none() -> None:
    stream = io.BytesIO()
    write(stream, [b"abc", b"def"])
    for end in range(1, len(stream.getvalue())):
        assert read(io.BytesIO(stream.getvalue()[:end])) is None


def test_oversized_messages_are_refused_before_reading() -> None:
    with pytest.raises(Unreadable, match="parts"):
        table_size(NUMBER.pack(2**60), 1000)
    with pytest.raises(Unreadable, match="1001 bytes; at most 1000"):
        lengths_in(NUMBER.pack(1000) + NUMBER.pack(1), 1000)
