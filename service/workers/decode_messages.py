"""Messages between a worker and the owner about requests whose texts the worker processes.

MessagePack of typed structures, in frames: the length as a 4-byte integer, then a list of messages.
Both ends run the same code, as the same user.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from service.api.access import Caller
from service.api.errors import REFUSALS
from service.engine.types import Decoded, Durations, FinishReason, Hypothesis
from service.translation.plain import DecodeRequest


def socket_beside(owner: Path) -> Path:
    """The socket for these messages, beside that of the owner's requests."""
    return owner.with_name(f"{owner.name}-decode")


_LENGTH = struct.Struct("<I")

Observation = Literal[
    "request_accepted", "request_finished", "request_failed", "tokenized", "characters"
]
"""A method of ``service.observability.metrics.RequestObserver``."""


class OfferedModel(msgspec.Struct, frozen=True):
    name: str
    version: str
    path: str
    """Of its bundle."""


class Offer(msgspec.Struct, tag=True, frozen=True):
    """From the owner: the models on offer, which it keeps until the next offer is taken."""

    number: int
    models: tuple[OfferedModel, ...]


class Taken(msgspec.Struct, tag=True, frozen=True):
    """From the worker: it uses this offer, and no earlier one."""

    number: int


class Decode(msgspec.Struct, tag=True, frozen=True):
    """From the worker: decode the sentences. ``Finished`` or ``Cancel`` follows.

    Invariant: the caller is charged if and only if ``Finished`` follows, as one process charges
    if and only if all of a request has been translated. A worker that dies cancels its requests.
    """

    number: int
    caller: Caller
    characters: int
    request: DecodeRequest
    request_id: str | None
    """For the log."""


class Finished(msgspec.Struct, tag=True, frozen=True):
    """From the worker: it has made the translations of a ``Decode``, which may be charged."""

    number: int


class Cancel(msgspec.Struct, tag=True, frozen=True):
    """From the worker: a ``Decode`` has failed there, or its result is no longer wanted.

    Nothing may be charged. The owner may have finished or refused it.
    """

    number: int


class Observed(msgspec.Struct, tag=True, frozen=True):
    """From the worker: a call of the owner's metrics."""

    name: Observation
    arguments: tuple[Any, ...]


class Result(msgspec.Struct, array_like=True, frozen=True):
    """A ``Decoded`` without a search tree, which no plain request asks for."""

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


class Done(msgspec.Struct, tag=True, frozen=True):
    """From the owner: the results of a ``Decode``, in order."""

    number: int
    results: tuple[Result, ...]


class Refused(msgspec.Struct, tag=True, frozen=True):
    """From the owner: the error of a ``Decode``, one of ``service.api.errors.REFUSALS``."""

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


class Replaced(msgspec.Struct, tag=True, frozen=True):
    """From the owner: no offer that the worker may use has the model of a ``Decode`` with a live
    engine. Nothing was charged."""

    number: int


_ERRORS = {kind.__name__: kind for kind in REFUSALS}

FromWorker = Taken | Decode | Finished | Cancel | Observed
FromOwner = Offer | Done | Refused | Replaced


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
        for content in self._frames():
            for message in self._decoder.decode(content):
                self.message_received(message)

    def _frames(self) -> Iterator[bytes]:
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield content

    def _flush(self) -> None:
        leaving, self._leaving = self._leaving, []
        if leaving and self._transport is not None:
            content = self._encoder.encode(leaving)
            self._transport.write(_LENGTH.pack(len(content)) + content)
