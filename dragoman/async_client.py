"""Asynchronous HTTP client, for asyncio programs.

``dragoman/client.py`` is generated from this module: ``python -m tools.generate_client``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
)
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

import httpx

from dragoman import endpoints, inspection
from dragoman.answers import Part, Translation
from dragoman.errors import DragomanError
from dragoman.options import Texts, TranslateOptions, check
from dragoman.request import Call, described
from dragoman.retrying import Attempts, Retries
from dragoman.sending import async_in_order, async_packs, async_send, packer
from dragoman.wire import Wire

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(build(*args, **kwargs))

    return described(method, build)


class AsyncStream(Generic[T]):
    """Iterator over the parts of a translation; ``result`` is the whole, after the last part.

    Leaving its ``async with`` early closes the connection, which cancels the request.
    """

    def __init__(self, parts: Callable[[list[T]], AsyncGenerator[Part, None]]) -> None:
        self._result: list[T] = []
        self._parts = parts(self._result)

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        return await anext(self._parts)

    @property
    def result(self) -> T:
        """The whole translation; raises ``RuntimeError`` before the last part."""
        if not self._result:
            raise RuntimeError("the translation is not finished; read all its parts first")
        return self._result[0]

    async def aclose(self) -> None:
        await self._parts.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncClient:
    """Translates over HTTP. Tasks may share one; close it, or use it as a context manager.

    ``url`` may have a path. ``timeout`` is in seconds for a call, with all attempts and pauses; a
    stream has to begin within it. ``retries`` is the number of retries, or ``Retries``. A given
    ``http_client`` keeps its own proxies, certificates and limits, and is not closed. Cancelling a
    call closes its connection, which cancels the request on the service.

    Raises ``ValueError`` for invalid arguments, and otherwise a ``DragomanError``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries | int = 5,
        http_client: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._wire = Wire(url, api_key)
        self._attempts = Attempts.maker(retries, timeout, clock)
        self._sleep = sleep
        self._http = http_client or httpx.AsyncClient()
        self._close = http_client is None

    async def aclose(self) -> None:
        """Close the connections, unless they belong to a given ``http_client``."""
        if self._close:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    translate = _method(endpoints.translate)
    translate_file = _method(endpoints.translate_file)
    alternatives = _method(endpoints.alternatives)
    detect = _method(endpoints.detect)
    languages = _method(endpoints.languages)
    models = _method(endpoints.models)
    ready = _method(endpoints.ready)
    usage = _method(endpoints.usage)
    legs = _method(inspection.legs)
    attention = _method(inspection.attention)
    alignment = _method(inspection.alignment)
    search = _method(inspection.search)
    attention_of = _method(inspection.attention_of)
    alignment_of = _method(inspection.alignment_of)
    score = _method(inspection.score)

    @overload
    def stream(
        self, text: str, *, target: str, source: str = ..., **options: Unpack[TranslateOptions]
    ) -> AsyncStream[Translation]: ...
    @overload
    def stream(
        self,
        text: Texts,
        *,
        target: str,
        source: str = ...,
        **options: Unpack[TranslateOptions],
    ) -> AsyncStream[list[Translation]]: ...
    def stream(
        self,
        text: str | Texts,
        *,
        target: str,
        source: str = "auto",
        **options: Unpack[TranslateOptions],
    ) -> AsyncStream[Any]:
        """Yield parts of a translation; the joined parts of a text are its translation.

        Failures are retried only before the first part.
        """
        call: Call[Any] = endpoints.translate(text, target=target, source=source, **options)
        return AsyncStream(partial(self._stream_parts, call))

    def translate_many(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        target: str,
        source: str = "auto",
        concurrency: int = 4,
        texts_per_request: int = 64,
        characters_per_request: int = 8000,
        **options: Unpack[TranslateOptions],
    ) -> AsyncGenerator[Translation, None]:
        """Translate any number of texts, in order, reading them as translations are taken.

        Sends up to ``concurrency`` requests at a time, with priority ``bulk`` unless given
        otherwise. Stopping early, by ``aclose``, sends no more requests and cancels those under
        way.
        """
        check(options)
        into = packer(texts, concurrency, texts_per_request, characters_per_request)

        def translate(pack: list[str]) -> Coroutine[Any, Any, list[Translation]]:
            in_bulk: TranslateOptions = {"priority": "bulk", **options}
            return self.translate(pack, target=target, source=source, **in_bulk)

        return async_in_order(translate, async_packs(texts, into), concurrency)

    async def _run(self, call: Call[T]) -> T:
        attempts = self._attempts()
        answer: T | Call[T] = call
        while isinstance(answer, Call):
            answer = await self._answer(answer, attempts)
        return answer

    async def _answer(self, call: Call[T], attempts: Attempts) -> T | Call[T]:
        while True:
            try:
                with self._wire.translated_errors():
                    request = self._wire.request(self._http, call, attempts.left())
                    response = await async_send(self._http, request, attempts)
                return self._wire.answer(call, response)
            except DragomanError as error:
                pause = attempts.pause(error)
            await self._sleep(pause)

    async def _stream_parts(self, call: Call[T], result: list[T]) -> AsyncGenerator[Part, None]:
        attempts = self._attempts()
        begun = False
        while True:
            try:
                with self._wire.translated_errors():
                    request = self._wire.request(self._http, call, attempts.left(), stream=True)
                    response = await self._http.send(request, stream=True, follow_redirects=False)
                    try:
                        if not response.is_success:
                            await response.aread()
                            self._wire.answer(call, response)
                        streamed = self._wire.streamed_answer(call, response)
                        async for received in response.aiter_bytes():
                            if not begun:
                                # Raises if other events, such as comments, took all of the time.
                                attempts.left()
                            for part in streamed.feed(received):
                                begun = True
                                yield part
                    finally:
                        await response.aclose()
                result.append(streamed.result())
                return
            except DragomanError as error:
                if begun:
                    raise
                pause = attempts.pause(error)
            await self._sleep(pause)
