"""Table of HTTP statuses and metric labels of all expected errors.

The dialects render the bodies. An error that is not in the table is a bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from service.catalogue.attention_reader import TargetTooLong
from service.catalogue.errors import (
    ModelMemoryFull,
    NotPermitted,
    NotReady,
    UnknownLanguage,
    UnknownModel,
    UnsupportedPair,
)
from service.document_jobs.types import (
    DocumentJobError,
    DocumentNotFound,
    DocumentNotReady,
    DocumentsFull,
    DocumentTooLarge,
    EqualLanguages,
)
from service.documents.types import (
    BrokenDocument,
    DocumentError,
    DocumentFailed,
    DocumentTooDemanding,
    MarkupLost,
    UnsupportedDocument,
)
from service.engine.errors import (
    BackendFailed,
    BeamTooWide,
    EngineError,
    EngineStopped,
    ImpossiblePrefix,
    SentenceTooLong,
)
from service.inspection.inspector import ModelGone
from service.inspection.translation_store import UnknownTranslation
from service.observability.metrics import FailureReason, Outcome
from service.state.errors import (
    DictionaryNotFound,
    GlossaryNotFound,
    InvalidGlossary,
    InvalidMemory,
    InvalidSuggestion,
    KeyNotFound,
    KeyRefused,
    KeyTaken,
    MemoryNotFound,
    QuotaExceeded,
    RateLimited,
    StateError,
    StateFailed,
    SuggestionsFull,
    TooManyGlossaries,
    TooManyMemories,
    shortened,
)
from service.text.errors import TranslationError
from service.text.markup import MalformedMarkup, TooMuchMarkup
from service.translation.errors import (
    DeadlineExceeded,
    InvalidOption,
    InvalidText,
    Overloaded,
    TextTooLarge,
    UndetectedLanguage,
)


class RequestError(Exception):
    """Base of errors found before the text of a request is processed."""


class BadRequest(RequestError):
    """A field is missing, or not what it should be; the message is meant for the client."""


class BodyTooLarge(RequestError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is too large; at most {limit} bytes are accepted")
        self.limit = limit


class KeyMissing(RequestError):
    """A key is required; ``link`` is the configured page to get one, or empty."""

    def __init__(self, link: str = "") -> None:
        where = f"Visit {link}" if link else "Please contact the server operator"
        super().__init__(f"{where} to get an API key")


class KeyInvalid(RequestError):
    """The key or access token is not valid; the message does not repeat it."""

    def __init__(self, problem: str = "Invalid API key") -> None:
        super().__init__(problem)


class IssuerUnavailable(RequestError):
    """Access tokens cannot be checked, because their issuer's keys are unknown."""

    def __init__(self, issuer: str, retry_after: int = 5) -> None:
        super().__init__(f"the service cannot read the keys of {issuer}; try again shortly")
        self.retry_after = retry_after


class Disabled(RequestError):
    """The operator has switched this off."""


class AdminRefused(RequestError):
    """Only the operator may do this; the message says how to authenticate."""


class BodyTooSlow(RequestError):
    def __init__(self) -> None:
        super().__init__("the body did not arrive in time; send it faster, or in smaller requests")


class ShuttingDown(RequestError):
    """The service is stopping; ``cut`` marks an accepted request that ran out of time."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__(
            "the service shut down before this was done; try again"
            if cut
            else "the service is shutting down; try again"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    status: HTTPStatus
    outcome: Outcome
    reason: FailureReason


_INVALID = Refusal(HTTPStatus.BAD_REQUEST, "invalid", "validation")
_FORBIDDEN = Refusal(HTTPStatus.FORBIDDEN, "rejected", "unauthorized")
_NOT_FOUND = Refusal(HTTPStatus.NOT_FOUND, "invalid", "validation")
_TOO_LARGE = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "invalid", "validation")

REFUSALS: dict[type[Exception], Refusal] = {
    BadRequest: _INVALID,
    InvalidText: _INVALID,
    InvalidOption: _INVALID,
    MalformedMarkup: _INVALID,
    ImpossiblePrefix: _INVALID,
    UnknownLanguage: _INVALID,
    UnsupportedPair: _INVALID,
    UndetectedLanguage: _INVALID,
    BeamTooWide: _INVALID,
    NotPermitted: _FORBIDDEN,
    KeyMissing: Refusal(HTTPStatus.BAD_REQUEST, "rejected", "unauthorized"),
    KeyInvalid: _FORBIDDEN,
    IssuerUnavailable: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "error", "internal"),
    AdminRefused: _FORBIDDEN,
    Disabled: _FORBIDDEN,
    InvalidGlossary: _INVALID,
    TooManyGlossaries: _INVALID,
    GlossaryNotFound: _NOT_FOUND,
    DictionaryNotFound: _NOT_FOUND,
    InvalidMemory: _INVALID,
    TooManyMemories: _INVALID,
    MemoryNotFound: _NOT_FOUND,
    InvalidSuggestion: _INVALID,
    KeyRefused: _INVALID,
    KeyTaken: Refusal(HTTPStatus.CONFLICT, "invalid", "validation"),
    KeyNotFound: _NOT_FOUND,
    UnknownModel: _NOT_FOUND,
    UnknownTranslation: _NOT_FOUND,
    ModelGone: Refusal(HTTPStatus.GONE, "invalid", "model_unloaded"),
    UnsupportedDocument: _INVALID,
    BrokenDocument: _INVALID,
    DocumentNotFound: _NOT_FOUND,
    EqualLanguages: _INVALID,
    BodyTooLarge: _TOO_LARGE,
    BodyTooSlow: Refusal(HTTPStatus.REQUEST_TIMEOUT, "timeout", "slow_body"),
    DocumentTooLarge: _TOO_LARGE,
    DocumentTooDemanding: _TOO_LARGE,
    TextTooLarge: _TOO_LARGE,
    TooMuchMarkup: _TOO_LARGE,
    SentenceTooLong: _TOO_LARGE,
    TargetTooLong: _TOO_LARGE,
    RateLimited: Refusal(HTTPStatus.TOO_MANY_REQUESTS, "rejected", "rate_limit"),
    # LibreTranslate's clients read 403 as a spent quota, and 429 as a temporary refusal.
    QuotaExceeded: Refusal(HTTPStatus.FORBIDDEN, "rejected", "quota"),
    SuggestionsFull: Refusal(HTTPStatus.FORBIDDEN, "rejected", "overloaded"),
    DocumentNotReady: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "overloaded"),
    DocumentsFull: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "overloaded"),
    StateFailed: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "error", "internal"),
    Overloaded: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "overloaded"),
    ShuttingDown: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "draining"),
    NotReady: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "model_unloaded"),
    ModelMemoryFull: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "rejected", "overloaded"),
    DeadlineExceeded: Refusal(HTTPStatus.GATEWAY_TIMEOUT, "timeout", "deadline"),
    EngineStopped: Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "error", "model_unloaded"),
    MarkupLost: Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal"),
    DocumentFailed: Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal"),
    BackendFailed: Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal"),
}

EXPECTED = (
    RequestError,
    DocumentJobError,
    DocumentError,
    StateError,
    TranslationError,
    EngineError,
)
"""Base classes of all errors in ``REFUSALS``."""

UNKNOWN_PATH = Refusal(HTTPStatus.NOT_FOUND, "invalid", "unknown_path")
"""Unknown path, or a method that the path does not have."""

CUT_SHORT = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "cancelled", "shutdown")
"""Accepted, and cancelled because the drain ran out of time."""

BUG = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "internal")


_RESTART_SECONDS = 5
"""Approximate time in which a supervisor restarts a dead model or a stopped service."""


def refusal_of(error: Exception) -> Refusal:
    return REFUSALS.get(type(error), BUG)


def message_of(error: Exception) -> str:
    """Message for clients of the root app: LibreTranslate's, where it has one."""
    if isinstance(error, UnknownLanguage):
        return f"{shortened(error.code)} is not supported"
    return str(error)


def headers_of(error: Exception) -> dict[str, str]:
    """Response headers for ``error``: ``retry-after`` where a retry may succeed."""
    match error:
        case (
            Overloaded()
            | NotReady()
            | RateLimited()
            | StateFailed()
            | IssuerUnavailable()
            | DocumentsFull()
            | DocumentNotReady()
        ):
            return {"retry-after": str(error.retry_after)}
        case EngineStopped() | ShuttingDown():
            return {"retry-after": str(_RESTART_SECONDS)}
        case _:
            return {}
