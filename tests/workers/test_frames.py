"""Frames between worker and owner, however the stream is cut."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.helpers.messages import NUMBER, Unreadable
from service.workers.frames import MOST_BYTES, FrameQueue, FrameReader, Kind, chunks, frame

FRAMES = st.lists(
    st.tuples(st.sampled_from(Kind), st.lists(st.binary(max_size=40), max_size=5)), max_size=6
)


@given(FRAMES, st.lists(st.integers(1, 60), min_size=1))
def test_frames_are_read_however_the_stream_is_cut(
    frames: list[tuple[Kind, list[bytes]]], sizes: list[int]
) -> None:
    stream = b"".join(frame(kind, *parts) for kind, parts in frames)
    reader, read = FrameReader(), []
    while stream:
        size = sizes[len(stream) % len(sizes)]
        read += reader.read(stream[:size])
        stream = stream[size:]
    assert read == frames


@given(st.integers(0, 3_000_000), st.booleans())
def test_chunks_are_bounded_and_join_to_the_body(size: int, more: bool) -> None:
    body = bytes(size)
    read = [each for chunk in chunks(body, more=more) for each in FrameReader().read(chunk)]
    assert b"".join(parts[0] for _, parts in read) == body
    assert [kind is Kind.LAST for kind, _ in read] == [False] * (len(read) - 1) + (
        [not more] if read else []
    )
    assert all(len(chunk) < MOST_BYTES for chunk in chunks(body, more=more))


@pytest.mark.parametrize(
    "stream",
    [
        NUMBER.pack(1 << 60),
        NUMBER.pack(1) + NUMBER.pack(MOST_BYTES + 1),
        NUMBER.pack(0),
        NUMBER.pack(1) + NUMBER.pack(1) + b"x",
    ],
    ids=["many parts", "long part", "no part", "unknown kind"],
)
def test_invalid_frame_is_unreadable(stream: bytes) -> None:
    with pytest.raises(Unreadable):
        list(FrameReader().read(stream))


async def test_long_queue_stops_reading_until_it_is_taken() -> None:
    transport = Mock()
    queue = FrameQueue(transport)
    part = cast(tuple[Kind, list[bytes]], (Kind.BODY, [bytes(200_000)]))
    queue.put(part)
    transport.pause_reading.assert_not_called()
    queue.put(part)
    transport.pause_reading.assert_called_once()
    assert await queue.take() == part
    transport.resume_reading.assert_called_once()
    queue.end()
    assert await queue.take() == part
    assert await queue.take() is None
