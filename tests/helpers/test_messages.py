from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.helpers.messages import NUMBER, Unreadable, lengths_in, read, table_size, write


@given(st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=3))
def test_messages_come_as_they_went(messages: list[list[bytes]]) -> None:
    stream = io.BytesIO()
    for message in messages:
        write(stream, message)
    stream.seek(0)
    assert [read(stream) for _ in messages] == messages
    assert read(stream) is None


def test_a_message_that_breaks_off_is_none() -> None:
    stream = io.BytesIO()
    write(stream, [b"abc", b"def"])
    for end in range(1, len(stream.getvalue())):
        assert read(io.BytesIO(stream.getvalue()[:end])) is None


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(Unreadable, match="parts"):
        table_size(NUMBER.pack(2**60), 1000)
    with pytest.raises(Unreadable, match="1001 bytes; at most 1000"):
        lengths_in(NUMBER.pack(1000) + NUMBER.pack(1), 1000)
