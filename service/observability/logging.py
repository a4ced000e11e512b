"""Structured logging to standard error as JSON or console lines, with the request id.

``request_id`` is a context variable that the outermost layer sets. Every line written in that
context carries it. Facts go into ``extra`` as named fields::

    logger.info("translated", extra={"route": "/translate", "sentences": 3})

Code does not pass texts or secrets to the log. As a second barrier, the values of fields with such
names are withheld.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, get_args

Format = Literal["json", "console"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request being served in this context."""

trace_id: ContextVar[str | None] = ContextVar("trace_id", default=None)
"""The id of the request's trace, if tracing is on."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_WITHHELD = "[withheld]"
_PRIVATE = frozenset(
    {
        *("q", "text", "texts", "sentence", "source_text", "target_text", "translation"),
        *("body", "query", "api_key", "auth_key", "authorization", "token", "password", "secret"),
    }
)
# A line break in a value would let a client forge log lines; an escape could move the cursor.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "request_id"),
    *("taskName", "color_message"),
}
_UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


_audit_logger = logging.getLogger("service.audit")


def audit(action: str, actor: str | None, **facts: object) -> None:
    """Log a change of keys, glossaries or models; ``actor`` is the name of a key, if there is one.

    ``facts`` name what was changed, and hold neither keys nor texts.
    """
    given = {} if actor is None else {"actor": actor}
    _audit_logger.info(action, extra=given | facts)


def configure(level: str, format: Format) -> None:
    """Send every line of the process to standard error, in one format.

    For entry points only. It replaces existing handlers and may be called again. A server
    run under it must not configure logging itself (``uvicorn.run(..., log_config=None)``).
    """
    if level.upper() not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    if format not in get_args(Format):
        raise ValueError(f"log format {format!r} is none of {', '.join(get_args(Format))}")

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else ConsoleFormatter())
    handler.addFilter(_add_ids)
    # No format shows the place, thread or process of a call, whose lookup costs as much as the line
    # (https://docs.python.org/3/howto/logging.html#optimization).
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in _UVICORN:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    # Its info lines repeat those of the command line and the lifespan.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    access = logging.getLogger("uvicorn.access")
    access.filters[:] = [_drop_query]


_encoder = json.JSONEncoder(ensure_ascii=False, default=str)


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (identifier := _request_id_of(record)) is not None:
            line["request_id"] = identifier
        line.update(_facts(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoder.encode(line)


class ConsoleFormatter(logging.Formatter):
    """One readable line: time, level, logger, message, and the facts as ``name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {**_facts(record)}
        if (identifier := _request_id_of(record)) is not None:
            facts["request_id"] = identifier
        words = [
            _time(record),
            f"{record.levelname:<8}",
            f"{record.name}:",
            record.getMessage(),
            *(f"{name}={value}" for name, value in facts.items()),
        ]
        line = _CONTROL.sub(_escaped, " ".join(words))
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _escaped(character: re.Match[str]) -> str:
    return character[0].encode("unicode_escape").decode("ascii")


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _request_id_of(record: logging.LogRecord) -> str | None:
    identifier: str | None = getattr(record, "request_id", None)
    return identifier


def _facts(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of ``extra``, without the names with ``_`` that libraries add for themselves."""
    return {
        name: _WITHHELD if name.lower() in _PRIVATE else value
        for name, value in vars(record).items()
        if name not in _STANDARD and not name.startswith("_")
    }


def _add_ids(record: logging.LogRecord) -> bool:
    if _request_id_of(record) is None:
        record.request_id = request_id.get()
    if (identifier := trace_id.get()) is not None:
        record.trace_id = identifier
    return True


def _drop_query(record: logging.LogRecord) -> bool:
    """Remove query strings from the access log: they may hold a text or a key."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.split("?", 1)[0] if isinstance(arg, str) else arg for arg in record.args
        )
    return True
