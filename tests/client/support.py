"""Fake service with scripted responses, a fake clock, and helpers that run either client."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from dragoman import AsyncClient, Client, Retries

Kind = Literal["sync", "async"]
KINDS: tuple[Kind, ...] = ("sync", "async")

TRANSLATED = {
    "translatedText": "A dog.",
    "model": "de-en",
    "finish_reason": "complete",
    "truncated": False,
}


class Clock:
    """Fake clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@dataclass
class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A response stream in chunks, which may end with an error."""

    pieces: tuple[bytes | Exception, ...]
    closed: bool = False

    def __iter__(self) -> Any:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Service:
    """Returns the scripted responses in order, raises exceptions, and records requests."""

    answers: Iterable[httpx.Response | Broken | Exception]
    requests: list[httpx.Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._answers = iter(self.answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Broken):
            headers = {"content-type": "text/event-stream; charset=utf-8"}
            return httpx.Response(200, headers=headers, stream=answer)
        # A response read by one kind of client cannot be read by the other.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]


def ok(**changes: Any) -> httpx.Response:
    return httpx.Response(200, json={**TRANSLATED, **changes})


def refused(status: int, sentence: str = "no", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"error": sentence}, headers=named)


def events(*events: tuple[str, Any]) -> bytes:
    return b"".join(
        f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        for name, data in events
    )


def streamed(*pieces: bytes | Exception) -> Broken:
    return Broken(pieces)


def ask(
    kind: Kind,
    service: Callable[[httpx.Request], httpx.Response],
    question: Callable[[Any], Any],
    *,
    clock: Clock | None = None,
    draw: Callable[[], float] = lambda: 1.0,
    **settings: Any,
) -> Any:
    """The result of ``question`` with a client of this kind."""
    clock = clock or Clock()
    settings = {"retries": Retries(draw=draw), "clock": clock, **settings}
    transport = httpx.MockTransport(service)
    if kind == "sync":
        with (
            httpx.Client(transport=transport) as http,
            Client(http_client=http, sleep=clock.sleep, **settings) as client,
        ):
            return question(client)

    async def talk() -> Any:
        async with (
            httpx.AsyncClient(transport=transport) as http,
            AsyncClient(http_client=http, sleep=clock.sleep_async, **settings) as client,
        ):
            answer = question(client)
            return await answer if inspect.isawaitable(answer) else answer

    return asyncio.run(talk())


def translate(client: Any) -> Any:
    return client.translate("Ein Hund.", target="en")


def read_stream(client: Any, *arguments: Any, **options: Any) -> Any:
    """The parts of a stream and its result, from either client."""
    if isinstance(client, Client):
        with client.stream(*arguments, **options) as stream:
            return list(stream), stream.result

    async def read() -> Any:
        async with client.stream(*arguments, **options) as stream:
            return [part async for part in stream], stream.result

    return read()


def read_many(client: Any, *arguments: Any, **options: Any) -> Any:
    """All of ``translate_many``, from either client."""
    if isinstance(client, Client):
        return list(client.translate_many(*arguments, **options))

    async def read() -> Any:
        return [each async for each in client.translate_many(*arguments, **options)]

    return read()
