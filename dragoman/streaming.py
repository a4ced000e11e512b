"""Parses a streamed translation from server-sent events. Independent of the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from dragoman.answers import Part
from dragoman.errors import DragomanError, UnexpectedAnswer, Unreachable, error_from
from dragoman.reading import MALFORMED
from dragoman.request import Call

R = TypeVar("R")

MEDIA_TYPE = "text/event-stream"


class Events:
    """Incremental parser of server-sent events; chunks may end anywhere."""

    def __init__(self) -> None:
        self._unread = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield name and data of each complete event."""
        # splitlines would also split at Unicode's other line ends, which a text may contain.
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"event":
                self._name = value.decode(errors="replace")
            elif name == b"data":
                self._data.append(value)
            elif not line and self._data:
                yield self._name, b"\n".join(self._data)
                self._name, self._data = "", []


class StreamedAnswer(Generic[R]):
    """A partially received translation: yields its parts and keeps the result."""

    def __init__(self, call: Call[R], request_id: str | None) -> None:
        self._read = call.read
        self._request_id = request_id
        self._events = Events()
        self._finished: list[R] = []

    def feed(self, received: bytes) -> Iterator[Part]:
        """Yield the received parts; raises the service's error, or ``UnexpectedAnswer``."""
        for name, data in self._events.feed(received):
            try:
                if name == "part":
                    given = json.loads(data)
                    yield Part(given["translatedText"], given["text"])
                elif name == "error":
                    raise self._refusal(json.loads(data))
                elif name == "done":
                    self._finish(data)
            except MALFORMED as error:
                raise UnexpectedAnswer(
                    f"an event of the stream cannot be read: {error!r}", request_id=self._request_id
                ) from error

    def result(self) -> R:
        """The result, after the last byte; raises ``Unreachable`` if the stream was incomplete."""
        if not self._finished:
            raise Unreachable(
                "the connection ended before the translation did", request_id=self._request_id
            )
        return self._finished[0]

    def _finish(self, data: bytes) -> None:
        result = self._read(data)
        if isinstance(result, Call):
            raise TypeError("a stream ends with its result")
        self._finished = [result]

    def _refusal(self, given: dict[str, Any]) -> DragomanError:
        return error_from(given["status"], given["error"], request_id=self._request_id)
