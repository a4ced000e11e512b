"""Synchronous HTTP client.

Generated from ``async_client.py``. Change that module, and run
``python -m tools.generate_client``.
"""

from __future__ import annotations

import time
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
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
from dragoman.sending import in_order, packer, packs, send
from dragoman.wire import Wire

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(build(*args, **kwargs))

    return described(method, build)


class Stream(Generic[T]):
    """Iterator over the parts of a translation; ``result`` is the whole, after the last part.

    Leaving its ``with`` early closes the connection, which cancels the request.
    """

    def __init__(self, parts: Callable[[list[T]], Generator[Part, None, None]]) -> None:
        self._result: list[T] = []
        self._parts = parts(self._result)

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        return next(self._parts)

    @property
    def result(self) -> T:
        """The whole translation; raises ``RuntimeError`` before the last part."""
        if not self._result:
            raise RuntimeError("the translation is not finished; read all its parts first")
        return self._result[0]

    def close(self) -> None:
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """Translates over HTTP. Threads may share one; close it, or use it as a context manager.

    ``url`` may have a path. ``timeout`` is in seconds for a call, with all attempts and pauses; but
    each network wait may take the time that was left when its attempt began. A stream
    has to begin within it. ``retries`` is the number of retries, or ``Retries``. A given
    ``http_client`` keeps its own proxies, certificates and limits, and is not closed.

    Raises ``ValueError`` for invalid arguments, and otherwise a ``DragomanError``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries | int = 5,
        http_client: httpx.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._wire = Wire(url, api_key)
        self._attempts = Attempts.maker(retries, timeout, clock)
        self._sleep = sleep
        self._http = http_client or httpx.Client()
        self._close = http_client is None

    def close(self) -> None:
        """Close the connections, unless they belong to a given ``http_client``."""
        if self._close:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
    ) -> Stream[Translation]: ...
    @overload
    def stream(
        self,
        text: Texts,
        *,
        target: str,
        source: str = ...,
        **options: Unpack[TranslateOptions],
    ) -> Stream[list[Translation]]: ...
    def stream(
        self,
        text: str | Texts,
        *,
        target: str,
        source: str = "auto",
        **options: Unpack[TranslateOptions],
    ) -> Stream[Any]:
        """Yield parts of a translation; the joined parts of a text are its translation.

        Failures are retried only before the first part.
        """
        call: Call[Any] = endpoints.translate(text, target=target, source=source, **options)
        return Stream(partial(self._stream_parts, call))

    def translate_many(
        self,
        texts: Iterable[str],
        *,
        target: str,
        source: str = "auto",
        concurrency: int = 4,
        texts_per_request: int = 64,
        characters_per_request: int = 8000,
        **options: Unpack[TranslateOptions],
    ) -> Generator[Translation, None, None]:
        """Translate any number of texts, in order, reading them as translations are taken.

        Sends up to ``concurrency`` requests at a time, with priority ``bulk`` unless given
        otherwise. Stopping early sends no more texts and waits for the requests under way.
        """
        check(options)
        into = packer(texts, concurrency, texts_per_request, characters_per_request)

        def translate(pack: list[str]) -> list[Translation]:
            in_bulk: TranslateOptions = {"priority": "bulk", **options}
            return self.translate(pack, target=target, source=source, **in_bulk)

        return in_order(translate, packs(texts, into), concurrency)

    def _run(self, call: Call[T]) -> T:
        attempts = self._attempts()
        answer: T | Call[T] = call
        while isinstance(answer, Call):
            answer = self._answer(answer, attempts)
        return answer

    def _answer(self, call: Call[T], attempts: Attempts) -> T | Call[T]:
        while True:
            try:
                with self._wire.translated_errors():
                    request = self._wire.request(self._http, call, attempts.left())
                    response = send(self._http, request, attempts)
                return self._wire.answer(call, response)
            except DragomanError as error:
                pause = attempts.pause(error)
            self._sleep(pause)

    def _stream_parts(self, call: Call[T], result: list[T]) -> Generator[Part, None, None]:
        attempts = self._attempts()
        begun = False
        while True:
            try:
                with self._wire.translated_errors():
                    request = self._wire.request(self._http, call, attempts.left(), stream=True)
                    response = self._http.send(request, stream=True, follow_redirects=False)
                    try:
                        if not response.is_success:
                            response.read()
                            self._wire.answer(call, response)
                        streamed = self._wire.streamed_answer(call, response)
                        for received in response.iter_bytes():
                            if not begun:
                                # Raises if other events, such as comments, took all of the time.
                                attempts.left()
                            for part in streamed.feed(received):
                                begun = True
                                yield part
                    finally:
                        response.close()
                result.append(streamed.result())
                return
            except DragomanError as error:
                if begun:
                    raise
                pause = attempts.pause(error)
            self._sleep(pause)
