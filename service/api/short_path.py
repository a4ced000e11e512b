"""ASGI app in front of another: answers plain JSON translations, and passes other requests on.

Most requests are a small JSON body of plain text in one language pair. They are read, split and
tokenised here, translated by one call, and answered, without routing. Nothing is counted or charged
before that call, so that every other request, an invalid one included, can be passed on as it came:
the app behind answers it. Both answer alike, see ``tests/api/test_short_path_equivalence.py``.

Before that call, no deadline applies and a disconnect is not noticed. A request that is not
received and prepared within ``_SECONDS`` is therefore passed on, for example when the text
threads are busy.

The call may have the sentences decoded by another process, see ``service.workers``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.access import Caller
from service.api.bounds import RequestLimits
from service.api.errors import EXPECTED, refusal_of
from service.api.metering import RequestMeter
from service.api.middleware import STARTED, facts_of
from service.api.parameters import Dialect, Fields, json_object
from service.api.recent_readings import Reading, RecentReadings
from service.translation.catalogue import Catalogue
from service.translation.errors import ModelReplaced, NotReady
from service.translation.plain import PreparedRequest, is_plain, prepare_plain
from service.translation.tasks import deadline
from service.translation.text_reader import TextReader
from service.translation.types import TranslateRequest, Translation

Translate = Callable[[Caller, int, PreparedRequest], Awaitable[list[Translation]]]
"""Translates a prepared request, and charges a caller for some characters unless that raises."""

_MOST_BYTES = 1 << 16
"""Of a body. Reading a longer one takes milliseconds, beside which routing is nothing."""
_SECONDS = 0.25
"""A request that takes longer to receive and prepare is passed on, where time limits apply."""
_MOST_ATTEMPTS = 3
"""How often a request is prepared for another model, if its model is replaced meanwhile."""
_EMPTY: Message = {"type": "http.request", "body": b"", "more_body": False}
_SHORT = "short"
"""Name in ``scope["state"]`` of the request that was read."""


@dataclass(frozen=True, slots=True)
class ShortRequest:
    """A parsed request, and how its translations and its seconds become the body of the answer."""

    wanted: TranslateRequest
    answer: Callable[[list[Translation], float], bytes]


class Offering(Protocol):
    """The models on offer, such as a ``ModelRepository``."""

    @property
    def catalogue(self) -> Catalogue:
        """Raises ``NotReady`` if there is none."""
        ...


class ShortForm(Protocol):
    """How a dialect reads a request of one path, and how it refuses one."""

    dialect: Dialect

    def read(
        self, fields: Fields, catalogue: Catalogue, limits: RequestLimits
    ) -> ShortRequest | None:
        """``None`` for a request that is not plain; may raise any of ``EXPECTED``."""
        ...

    def refusal(self, error: Exception) -> Response: ...


@dataclass(frozen=True, slots=True)
class _Read:
    """A request on the short path."""

    form: ShortForm
    caller: Caller
    characters: int
    wanted: TranslateRequest
    answer: Callable[[list[Translation], float], bytes]
    prepared: PreparedRequest


@dataclass(frozen=True, slots=True)
class _Route:
    """Stands for a route in ``scope``, as far as ``RequestLog`` reads it."""

    path: str


class ShortPath:
    def __init__(
        self,
        app: ASGIApp,
        *,
        forms: Mapping[str, ShortForm],
        meter: RequestMeter,
        reader: TextReader,
        models: Offering,
        translate: Translate,
        around: Callable[[ASGIApp], ASGIApp],
        recent: RecentReadings,
        serves: Callable[[PreparedRequest], bool] = lambda _: True,
        refuse_if_full: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``forms`` maps paths to forms. ``around`` adds the middleware of answers.

        Requests that ``serves`` refuses are passed on, and so are those of a caller for which
        ``refuse_if_full`` raises ``Overloaded``: a full service tokenises nothing.
        """
        self._app = app
        self._forms = forms
        self._meter = meter
        self._reader = reader
        self._models = models
        self._translate = translate
        self._serves = serves
        self._refuse_if_full = refuse_if_full
        self._recent = recent
        self._answering = around(self._answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = self._form_of(scope)
        if form is None:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        came: list[Message] = []
        try:
            async with asyncio.timeout(_SECONDS):
                body = await _received(receive, came)
                read = None if body is None else await self._read(form, scope, body)
        except TimeoutError:
            # The app behind waits for what is missing.
            read = None
        if read is None:
            await self._app(scope, _replaying(came, receive), send)
            return
        state = scope.setdefault("state", {})
        state[_SHORT], state[STARTED] = read, started
        scope["route"] = _Route(scope["path"])
        await self._answering(scope, _replaying([_EMPTY], receive), send)

    def _form_of(self, scope: Scope) -> ShortForm | None:
        """The form of a request whose head is that of a plain one."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        form = self._forms.get(scope["path"])
        if form is None or scope["query_string"] or scope.get("root_path"):
            return None
        length = 0
        as_json: bool | None = None
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 10 else 0
            # Routes read the first one, too.
            elif name == b"content-type" and as_json is None:
                as_json = value.partition(b";")[0].strip().lower() == b"application/json"
            elif name in (b"expect", b"content-encoding"):
                return None
        return form if as_json and 0 < length <= _MOST_BYTES else None

    async def _read(self, form: ShortForm, scope: Scope, body: bytes) -> _Read | None:
        request, question = Request(scope), (scope["path"], body)
        try:
            catalogue = self._models.catalogue
            reading = self._recent.get(catalogue, question) or self._parsed(form, catalogue, body)
            if reading is None:
                return None
            caller = await self._meter.callers.identify(request, reading.key)
            wanted, characters = self._meter.checked(request, caller, reading.wanted)
            self._refuse_if_full(wanted.caller)
            prepared = reading.prepared_for(wanted)
            if prepared is None:
                prepared = await prepare_plain(wanted, catalogue, self._reader)
                if prepared is not None:
                    self._recent.keep(catalogue, question, replace(reading, prepared=prepared))
        # The app behind finds the same error, and counts, logs and answers it.
        except EXPECTED:
            return None
        if prepared is None or not self._serves(prepared):
            return None
        return _Read(form, caller, characters, wanted, reading.answer, prepared)

    def _parsed(self, form: ShortForm, catalogue: Catalogue, body: bytes) -> Reading | None:
        """``None`` for a request that is not plain; may raise any of ``EXPECTED``."""
        fields = Fields(json_object(body), as_json=True, dialect=form.dialect)
        short = form.read(fields, catalogue, self._meter.limits)
        if short is None or not is_plain(short.wanted):
            return None
        return Reading(fields.key, short.wanted, short.answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An open connection keeps the scope of its last request.
        read: _Read = scope["state"].pop(_SHORT)
        request = Request(scope)
        # The body has been read: from here on, the middleware watches for a hang-up.
        await receive()
        try:
            # Around all of it: placing unknown tokens waits for the attention thread.
            async with deadline(read.wanted.deadline):
                translations = await self._translated(read)
        except EXPECTED as error:
            facts_of(request).refusal = refusal_of(error)
            await read.form.refusal(error)(scope, receive, send)
            return
        self._meter.note(request, read.wanted, translations)
        content = read.answer(translations, time.perf_counter() - scope["state"][STARTED])
        headers = [
            (b"content-length", str(len(content)).encode()),
            (b"content-type", b"application/json"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _translated(self, read: _Read) -> list[Translation]:
        prepared: PreparedRequest | None = read.prepared
        for _ in range(_MOST_ATTEMPTS):
            if prepared is None:
                break
            try:
                return await self._translate(read.caller, read.characters, prepared)
            except ModelReplaced:
                prepared = await prepare_plain(read.wanted, self._models.catalogue, self._reader)
        raise NotReady("the models are being replaced; try again")


async def _received(receive: Receive, came: list[Message]) -> bytes | None:
    """The body of a request, if it comes whole and is short; adds the messages to ``came``."""
    body: bytes = b""
    while len(body) <= _MOST_BYTES:
        came.append(message := await receive())
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body
    return None


def _replaying(came: Sequence[Message], receive: Receive) -> Receive:
    """``receive``, which first returns the messages that came already."""
    left = deque(came)

    async def receive_again() -> Message:
        return left.popleft() if left else await receive()

    return receive_again
