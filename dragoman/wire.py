"""Converts calls to httpx requests, and responses to results or exceptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx

from dragoman.errors import DeadlinePassed, UnexpectedAnswer, Unreachable, error_of
from dragoman.reading import MALFORMED
from dragoman.request import Call
from dragoman.streaming import MEDIA_TYPE, StreamedAnswer

T = TypeVar("T")

_CONNECT_SECONDS = 5.0
"""Limit for connecting. A lost machine does not refuse; a retry may reach its replacement."""


class Wire:
    """Address of the service and headers of every request."""

    def __init__(self, url: str, api_key: str | None) -> None:
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"{url!r} is no address: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"{url!r} is no address; it should be as http://127.0.0.1:8000")
        if parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than an address and a path")
        if api_key is not None and not (
            api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()
        ):
            raise ValueError("the API key has characters that no key has")
        self._url = url.rstrip("/")
        # Errors are logged, and a password is not.
        self._shown = str(parts.copy_with(userinfo=None)).rstrip("/")
        self._headers = {"user-agent": "dragoman-python"}
        if api_key is not None:
            # Authorization stays free for a proxy in front of the service.
            self._headers["x-api-key"] = api_key

    def request(
        self,
        http: httpx.Client | httpx.AsyncClient,
        call: Call[T],
        left: float,
        *,
        stream: bool = False,
    ) -> httpx.Request:
        """A request that both client and service abort after ``left`` seconds."""
        headers = {**self._headers, "x-request-timeout": f"{max(left, 0.001):.3f}"}
        content = None
        if call.json is not None:
            body = {**call.json, "stream": True} if stream else call.json
            # A mapping that is no dict is written as one.
            text = json.dumps(
                body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict
            )
            # A lone surrogate has no UTF-8. Sent as an escape, the service names it in its error.
            content = text.encode("utf-8", "backslashreplace")
            headers["content-type"] = "application/json"
        timeout = httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS))
        return http.build_request(
            call.method,
            f"{self._url}/{call.path}",
            params=call.query or None,
            headers=headers,
            content=content,
            data=dict(call.form) if call.form is not None else None,
            files={"file": call.file} if call.file is not None else None,
            timeout=timeout,
        )

    def answer(self, call: Call[T], response: httpx.Response) -> T | Call[T]:
        """The result in a response whose body has been read; raises its error."""
        if response.status_code not in call.answers:
            raise error_of(response.status_code, response.content, response.headers)
        try:
            return call.read(response.content)
        except MALFORMED as error:
            if not response.is_success:
                raise error_of(response.status_code, response.content, response.headers) from error
            raise UnexpectedAnswer(
                f"the answer of {self._shown}/{call.path} cannot be read: {error!r}",
                status=response.status_code,
                request_id=response.headers.get("x-request-id"),
            ) from error

    def streamed_answer(self, call: Call[T], response: httpx.Response) -> StreamedAnswer[T]:
        """The parser of an unread, successful stream; raises ``UnexpectedAnswer``."""
        request_id = response.headers.get("x-request-id")
        if response.headers.get("content-type", "").partition(";")[0] != MEDIA_TYPE:
            raise UnexpectedAnswer(
                f"{self._shown}/{call.path} does not stream",
                status=response.status_code,
                request_id=request_id,
            )
        return StreamedAnswer(call, request_id)

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate httpx exceptions into ``DragomanError``."""
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise Unreachable(f"{self._shown} does not take connections") from error
        except httpx.TimeoutException as error:
            raise DeadlinePassed(f"{self._shown} did not answer in the time there was") from error
        except httpx.DecodingError as error:
            raise UnexpectedAnswer(
                f"{self._shown} answered what cannot be read: {error}"
            ) from error
        except httpx.RequestError as error:
            raise Unreachable(f"{self._shown} cannot be reached: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    return str(error) or type(error).__name__
