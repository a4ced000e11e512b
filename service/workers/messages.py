"""Messages between a worker, which processes texts, and the owner of the engines and all state.

MessagePack of typed structures, in frames: the length as a 4-byte integer, then a list of messages.
Both ends run the same code, as the same user.

A worker opens a request, makes calls for it, and closes it. The owner answers each call by its
number.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Literal, cast

import msgspec
import numpy as np

from service.api.access import Caller
from service.api.errors import REFUSALS
from service.catalogue.errors import ModelReplaced
from service.engine.types import Decoded, DecodingOptions, Origin
from service.translation.decoder import ForcedPass
from service.translation.types import Translation

_LENGTH = struct.Struct("<I")

Observation = Literal[
    "request_accepted", "request_finished", "request_failed", "tokenized", "characters"
]
"""A method of ``service.observability.metrics.RequestObserver``."""


class _Message(msgspec.Struct, tag=True, frozen=True, array_like=True):
    pass


class Offer(_Message, frozen=True):
    """The models on offer, which the owner keeps until the worker has taken the next offer."""

    number: int
    models: tuple[tuple[str, str, str], ...]
    """Name, version and bundle directory of each model."""


class Leaving(_Message, frozen=True):
    """The owner ends soon: every answer closes its connection to a client."""


class Taken(_Message, frozen=True):
    """The worker uses this offer, and no earlier one."""

    number: int


class Open(_Message, frozen=True):
    """A request of a caller for some characters; ``Close`` follows.

    Invariant: the caller is charged for all of them if a ``Close`` with ``finished`` follows, and
    otherwise for what ``Used`` names, as one process charges for what it has delivered.
    """

    request: int
    caller: Caller
    characters: int
    origin: Origin
    request_id: str | None
    """The id that log lines of the owner have."""


class Close(_Message, frozen=True):
    """Ends a request. Without ``finished`` its calls are cancelled."""

    request: int
    finished: bool


class Used(_Message, frozen=True):
    """So many more characters of a request have been translated and sent to its client."""

    request: int
    characters: int


class Admit(_Message, frozen=True):
    """A call that is answered once the request has been admitted; the reply has no value."""

    number: int
    request: int


class Decode(_Message, frozen=True):
    """A call of ``Decoder.decode``; a ``Part`` for each sentence comes first if ``parts``."""

    number: int
    request: int
    model: str
    version: str
    sentences: tuple[tuple[tuple[int, ...], DecodingOptions], ...]
    work: int
    parts: bool


class Force(_Message, frozen=True):
    """A call of ``Decoder.teacher_force``."""

    number: int
    request: int
    model: str
    version: str
    source_ids: tuple[int, ...]
    written: tuple[int, ...]


class Keep(_Message, frozen=True):
    """A call that keeps translations for requests about their attention; returns their id."""

    number: int
    translations: tuple[Translation, ...]
    scope: str


class Observed(_Message, frozen=True):
    """A call of the owner's metrics, which is not answered."""

    name: Observation
    arguments: tuple[Any, ...]


Value = tuple[Decoded, ...] | ForcedPass | str | None


class Part(_Message, frozen=True):
    """The result of one sentence of a ``Decode``."""

    number: int
    sentence: int
    decoded: Decoded


class Reply(_Message, frozen=True):
    """Result of a call."""

    number: int
    value: Value


class Refused(_Message, frozen=True):
    """Error of a call: ``ModelReplaced``, or an error of ``service.api.errors.REFUSALS``."""

    number: int
    error: str
    """Name of its class; empty for an unexpected error, which the owner has logged."""
    message: str = ""
    facts: dict[str, Any] = {}

    @classmethod
    def of(cls, number: int, error: BaseException) -> Refused:
        name = type(error).__name__
        return cls(number, name, str(error), vars(error)) if name in _ERRORS else cls(number, "")

    def raised(self) -> Exception:
        """The error, without a second run of its class's ``__init__``."""
        if not self.error:
            return RuntimeError("the owner failed unexpectedly; its log has the error")
        kind = _ERRORS[self.error]
        error = kind.__new__(kind, self.message)
        vars(error).update(self.facts)
        return error


_ERRORS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (*REFUSALS, ModelReplaced)}

Call = Admit | Decode | Force | Keep
FromWorker = Taken | Open | Close | Used | Call | Observed
FromOwner = Offer | Leaving | Part | Reply | Refused


class MessageProtocol(asyncio.Protocol):
    """One end of a connection. Messages of one turn of the event loop are sent in one frame."""

    def __init__(self, received: Any) -> None:
        """``received`` is the union of the messages that the other end sends."""
        self._decoder = msgspec.msgpack.Decoder(list[received], dec_hook=_array)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_shape_and_bytes)
        self._buffer = bytearray()
        self._leaving: list[Any] = []
        self._transport: asyncio.Transport | None = None

    def message_received(self, message: Any) -> None:
        raise NotImplementedError

    def send(self, message: FromWorker | FromOwner) -> None:
        """Send a message soon. It is lost if the connection is."""
        self._leaving.append(message)
        if len(self._leaving) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            for message in self._decoder.decode(content):
                self.message_received(message)

    def _flush(self) -> None:
        leaving, self._leaving = self._leaving, []
        if leaving and self._transport is not None:
            content = self._encoder.encode(leaving)
            self._transport.write(_LENGTH.pack(len(content)) + content)


def _shape_and_bytes(value: Any) -> tuple[tuple[int, ...], bytes]:
    """A float32 array as MessagePack has it."""
    return value.shape, value.astype(np.float32).tobytes()


def _array(_: type, value: Any) -> Any:
    shape, content = value
    return np.frombuffer(content, np.float32).reshape(shape)
