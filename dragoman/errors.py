"""What can go wrong between a caller and the service: one class for each kind.

``error_of`` is the only place that knows which status, and which of the service's sentences, means
which kind.
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
    """Base of all. Its text is the service's own sentence, where the service said one."""

    passes: ClassVar[bool] = False
    """Whether the same call may succeed a little later."""

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
        """Of HTTP; ``None`` where there was no answer."""
        self.request_id = request_id
        """Under which the service's log has it."""
        self.retry_after = retry_after
        """Seconds after which the service wants to be asked again, if it said so."""


class RequestRefused(DragomanError):
    """The request is wrong, and will be wrong again: 400 and other 4xx."""


class NotFound(RequestRefused):
    """No such model, translation or path, or no longer: 404, 410."""


class TooLarge(RequestRefused):
    """The request, a text, or a word in it is too large: 413."""


class AccessDenied(DragomanError):
    """The key is missing or wrong, or the operator has switched this off: 401, 403."""


class QuotaSpent(DragomanError):
    """The characters of the month are spent."""


class RateLimited(DragomanError):
    """More requests a minute than the caller may send: 429."""

    passes = True


class Overloaded(DragomanError):
    """The service is full, stopping, or has no model yet: 503."""

    passes = True


class Unreachable(DragomanError):
    """No connection, or it broke before the answer was complete; or a proxy said so: 502."""

    passes = True


class DeadlinePassed(DragomanError):
    """Not done in the time there was, by the client's clock or the service's: 408, 504."""


class ServerFault(DragomanError):
    """The service failed; its log says why. Other 5xx.

    Not sent again: a text that makes the model fail would fail those translated beside it, too.
    """


class UnexpectedAnswer(DragomanError):
    """The answer is none of Dragoman's: something else may be listening there."""


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

# LibreTranslate has no status of their own for these two.
_SENTENCES: dict[int, tuple[re.Pattern[str], type[DragomanError]]] = {
    400: (re.compile(r"to get an API key$"), AccessDenied),
    403: (re.compile(r"^Quota exceeded"), QuotaSpent),
}


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> DragomanError:
    """What an answer that is not the wanted one means."""
    return error_from(
        status,
        _sentence(body) or f"the service answered with status {status}",
        request_id=headers.get("x-request-id"),
        retry_after=retry_after(headers),
    )


def error_from(status: int, message: str, **about: Any) -> DragomanError:
    """As ``error_of``, of what has been read; ``about`` are fields of ``DragomanError``."""
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
    """Seconds, whichever way ``Retry-After`` says it; ``None`` if it does not, or not sensibly.

    A date counts from the ``Date`` of the same answer, so that clocks need not agree.
    """
    said = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(said):
        return float(said)
    then = _date(said)
    if then is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds())


def _date(said: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(said)
    except ValueError:
        return None
    # "-0000" is UTC without a word about where.
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _sentence(body: bytes) -> str:
    """What the service says in its body; of another server's, the beginning."""
    try:
        said = json.loads(body)
    except ValueError:
        return " ".join(body[: 4 * _LONGEST_SHOWN].decode(errors="replace").split())[
            :_LONGEST_SHOWN
        ]
    if isinstance(said, dict):
        for name in ("error", "message"):
            if isinstance(said.get(name), str):
                return str(said[name])
    return ""
