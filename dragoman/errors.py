"""Exceptions of the client, and their mapping from HTTP statuses and error messages.

Only ``error_of`` and ``error_from`` map a status or message to a class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

_LONGEST_SHOWN = 200
_SECONDS = re.compile(r"\d{1,9}(\.\d+)?")


class DragomanError(Exception):
    """Base of all errors. Its text is the service's error message, if there is one."""

    passes: ClassVar[bool] = False
    """Whether the error is temporary, so that a retry may succeed."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; ``None`` without a response."""
        self.request_id = request_id
        """Id of the request in the service's log."""
        self.retry_after = retry_after
        """Seconds to wait before a retry, if the service sent ``Retry-After``."""


class RequestRefused(DragomanError):
    """The request is invalid, so a retry fails too: 400 and other 4xx."""


class NotFound(RequestRefused):
    """The model, translation or path does not exist or has expired: 404, 410."""


class TooLarge(RequestRefused):
    """The request, a text, or a word in it is too large: 413."""


class AccessDenied(DragomanError):
    """The key is missing or wrong, or the operator has disabled the endpoint: 401, 403."""


class QuotaSpent(DragomanError):
    """The monthly quota of characters is used up: 456, or 403."""


class RateLimited(DragomanError):
    """The caller exceeded its requests per minute: 429."""

    passes = True


class Overloaded(DragomanError):
    """The service is overloaded, shutting down, or has no model loaded yet: 503."""

    passes = True


class Unreachable(DragomanError):
    """The connection failed or broke before the response was complete, or a proxy sent 502."""

    passes = True


class DeadlinePassed(DragomanError):
    """The client's timeout or the service's deadline passed: 408, 504."""


class ServerFault(DragomanError):
    """The service failed; its log says why. Other 5xx.

    Not retried: a text that makes the model fail also fails the texts in the same batch.
    """


class UnexpectedAnswer(DragomanError):
    """The response is not one of Dragoman's: another server may listen at the address."""


_KINDS: dict[int, type[DragomanError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    408: DeadlinePassed,
    410: NotFound,
    413: TooLarge,
    429: RateLimited,
    456: QuotaSpent,
    502: Unreachable,
    503: Overloaded,
    504: DeadlinePassed,
}

# The LibreTranslate API has no separate status for these two.
_SENTENCES: dict[int, tuple[re.Pattern[str], type[DragomanError]]] = {
    400: (re.compile(r"to get an API key$"), AccessDenied),
    403: (re.compile(r"^Quota exceeded"), QuotaSpent),
}


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> DragomanError:
    """The exception for an error response."""
    return error_from(
        status,
        _sentence(body) or f"the service answered with status {status}",
        request_id=headers.get("x-request-id"),
        retry_after=retry_after(headers),
    )


def error_from(status: int, message: str, **about: Any) -> DragomanError:
    """The exception of a parsed response; ``about`` are fields of ``DragomanError``."""
    kind = _KINDS.get(status)
    if status in _SENTENCES and _SENTENCES[status][0].search(message):
        kind = _SENTENCES[status][1]
    if kind is None:
        kind = UnexpectedAnswer
        if 400 <= status < 500:
            kind = RequestRefused
        elif status >= 500:
            kind = ServerFault
    return kind(message, status=status, **about)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds, from a number or a date; ``None`` if missing or invalid.

    A date is relative to the ``Date`` of the same response, so clocks need not agree.
    """
    header = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(header):
        return float(header)
    then = _date(header)
    if then is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds())


def _date(header: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    # "-0000" is UTC without a time zone (RFC 5322).
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _sentence(body: bytes) -> str:
    """The error message in a body; the first 200 characters if it is not JSON."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(body[: 4 * _LONGEST_SHOWN].decode(errors="replace").split())[
            :_LONGEST_SHOWN
        ]
    if isinstance(content, dict):
        for name in ("error", "message"):
            if isinstance(content.get(name), str):
                return str(content[name])
    return ""
