"""One table: what each refusal and failure is called in HTTP and in the metrics.

The body is the dialect's business. An error that is not in the table is a bug of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from service.engine.errors import (
    BackendFailed,
    BeamTooWide,
    EngineError,
    EngineStopped,
    ImpossiblePrefix,
    SentenceTooLong,
)
from service.observability.metrics import FailureReason, Outcome
from service.translation.errors import (
    InvalidOption,
    InvalidText,
    NotReady,
    Overloaded,
    TextTooLarge,
    TranslationError,
    UnknownLanguage,
    UnsupportedPair,
)


class RequestError(Exception):
    """Base of what is wrong with a request before anybody looks at its text."""


class BadRequest(RequestError):
    """A field is missing, or not what it should be; the message is meant for the client."""


class BodyTooLarge(RequestError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is too large; at most {limit} bytes are accepted")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Refusal:
    status: HTTPStatus
    outcome: Outcome
    reason: FailureReason


_INVALID = Refusal(HTTPStatus.BAD_REQUEST, "invalid", "validation")
_TOO_LARGE = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "invalid", "validation")

REFUSALS: dict[type[Exception], Refusal] = {
    BadRequest: _INVALID,
    InvalidText: _INVALID,
    InvalidOption: _INVALID,
    ImpossiblePrefix: _INVALID,
    UnknownLanguage: _INVALID,
    UnsupportedPair: _INVALID,
    BeamTooWide: _INVALID,
    BodyTooLarge: _TOO_LARGE,
    TextTooLarge: _TOO_LARGE,
    SentenceTooLong: _TOO_LARGE,
    Overloaded: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "overloaded"),
    NotReady: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "model_unloaded"),
    EngineStopped: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "error", "model_unloaded"),
    BackendFailed: Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal"),
}

EXPECTED = (RequestError, TranslationError, EngineError)
"""The bases of everything in the table."""

UNKNOWN_PATH = Refusal(HTTPStatus.NOT_FOUND, "invalid", "unknown_path")
"""No such path, or not by this method."""

BUG = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal")


_RESTART_SECONDS = 5
"""About how long a supervisor takes to bring a dead model back."""


def refusal_of(error: Exception) -> Refusal:
    return REFUSALS.get(type(error), BUG)


def headers_of(error: Exception) -> dict[str, str]:
    """What an answer to ``error`` says beside its body."""
    match error:
        case Overloaded() | NotReady():
            return {"retry-after": str(error.retry_after)}
        case EngineStopped():
            return {"retry-after": str(_RESTART_SECONDS)}
        case _:
            return {}
