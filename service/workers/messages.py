"""Messages between a worker, which processes texts, and the owner of the engines and all state.

MessagePack of typed structures, in frames: the length as a 4-byte integer, then a list of messages.
Both ends run the same code, as the same user.

A worker opens a request, makes calls for it (``Decode``, ``Force``, ``Keep``), and closes it. The
owner replies to each call by its number.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Literal, cast

import msgspec
import numpy as np

from service.api.access import Caller
from service.api.errors import REFUSALS
from service.engine.types import Decoded, DecodingOptions, Durations, FinishReason, Hypothesis
from service.engine.types import Origin as Origin
from service.translation.decoder import ForcedPass
from service.translation.types import Translation

_LENGTH = struct.Struct("<I")

Observation = Literal[
    "request_accepted", "request_finished", "request_failed", "tokenized", "characters"
]
"""A method of ``service.observability.metrics.RequestObserver``."""


class _Message(msgspec.Struct, tag=True, frozen=True, array_like=True):
    pass


class OfferedModel(msgspec.Struct, frozen=True):
    name: str
    version: str
    path: str
    """Directory of its bundle."""


class Offer(_Message, frozen=True):
    """The models on offer, which the owner keeps until the worker has taken the next offer."""

    number: int
    models: tuple[OfferedModel, ...]


class Taken(_Message, frozen=True):
    """The worker uses this offer, and no earlier one."""

    number: int


class Open(_Message, frozen=True):
    """A request of a caller for some characters; ``Close`` follows.

    Invariant: the caller is charged if and only if a ``Close`` with ``finished`` follows, as one
    process charges if and only if all of a request has been translated.
    """

    request: int
    caller: Caller
    characters: int
    origin: Origin
    request_id: str | None
    """For the log."""


class Close(_Message, frozen=True):
    """Ends a request. Without ``finished`` its calls are cancelled, and nothing is charged."""

    request: int
    finished: bool


class Decode(_Message, frozen=True):
    """See ``Decoder.decode``; ``Done`` replies, after a ``Part`` each if ``parts``.

    Without sentences, the reply says whether the request was admitted.
    """

    number: int
    request: int
    model: str
    version: str
    sentences: tuple[tuple[tuple[int, ...], DecodingOptions], ...]
    work: int
    parts: bool


class Force(_Message, frozen=True):
    """See ``Decoder.teacher_force``; ``Forced`` replies."""

    number: int
    request: int
    model: str
    version: str
    source_ids: tuple[int, ...]
    written: tuple[int, ...]


class Keep(_Message, frozen=True):
    """Keep translations for requests about their attention; ``Kept`` replies."""

    number: int
    request: int
    translations: tuple[Translation, ...]


class Cancel(_Message, frozen=True):
    """The reply to a call is no longer wanted."""

    number: int


class Observed(_Message, frozen=True):
    """A call of the owner's metrics."""

    name: Observation
    arguments: tuple[Any, ...]


class Result(msgspec.Struct, array_like=True, frozen=True):
    """A ``Decoded`` without a search tree, which no translation asks for."""

    hypotheses: tuple[tuple[tuple[int, ...], float], ...]
    finish_reason: FinishReason
    queued: float
    decoding: float

    @classmethod
    def of(cls, decoded: Decoded) -> Result:
        return cls(
            tuple((each.token_ids, each.score) for each in decoded.hypotheses),
            decoded.finish_reason,
            decoded.durations.queued,
            decoded.durations.decoding,
        )

    def decoded(self) -> Decoded:
        return Decoded(
            tuple(Hypothesis(ids, score) for ids, score in self.hypotheses),
            self.finish_reason,
            Durations(self.queued, self.decoding),
        )


class Part(_Message, frozen=True):
    number: int
    sentence: int
    result: Result


class Done(_Message, frozen=True):
    number: int
    results: tuple[Result, ...]


class Forced(_Message, frozen=True):
    """A ``ForcedPass``; arrays of float32 as bytes."""

    number: int
    cross: bytes
    log_probs: bytes
    entropies: bytes | None

    @classmethod
    def of(cls, number: int, forced: ForcedPass) -> Forced:
        entropies = forced.entropies_T
        return cls(
            number,
            forced.cross_TS.tobytes(),
            forced.log_probs_T.tobytes(),
            None if entropies is None else entropies.tobytes(),
        )

    def forced_pass(self) -> ForcedPass:
        log_probs_T = np.frombuffer(self.log_probs, np.float32)
        return ForcedPass(
            np.frombuffer(self.cross, np.float32).reshape(len(log_probs_T), -1),
            log_probs_T,
            None if self.entropies is None else np.frombuffer(self.entropies, np.float32),
        )


class Kept(_Message, frozen=True):
    number: int
    identifier: str


class Refused(_Message, frozen=True):
    """The error of a call, one of ``service.api.errors.REFUSALS``."""

    number: int
    error: str
    """Name of its class; empty for an unexpected error, which the owner has logged."""
    message: str = ""
    facts: dict[str, Any] = {}

    @classmethod
    def of(cls, number: int, error: Exception) -> Refused:
        known = type(error) in REFUSALS
        return (
            cls(number, type(error).__name__, str(error), vars(error)) if known else cls(number, "")
        )

    def raised(self) -> Exception:
        """The error, without a second run of its class's ``__init__``."""
        if not self.error:
            return RuntimeError("the owner failed unexpectedly; its log has the error")
        kind = _ERRORS[self.error]
        error = kind.__new__(kind, self.message)
        vars(error).update(self.facts)
        return error


class Replaced(_Message, frozen=True):
    """No offer that the worker may use has the model of a call with a live engine."""

    number: int


_ERRORS = {kind.__name__: kind for kind in REFUSALS}

Call = Decode | Force | Keep
Reply = Done | Forced | Kept | Refused | Replaced
FromWorker = Taken | Open | Close | Call | Cancel | Observed
FromOwner = Offer | Part | Reply


class MessageProtocol(asyncio.Protocol):
    """One end of a connection. Messages of one turn of the event loop are sent in one frame."""

    def __init__(self, received: Any) -> None:
        """``received`` is the union of the messages that the other end sends."""
        self._decoder = msgspec.msgpack.Decoder(list[received])
        self._encoder = msgspec.msgpack.Encoder()
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
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
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
