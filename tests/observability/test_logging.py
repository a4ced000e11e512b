from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any, cast

import pytest

from service.engine.engine import Engine
from service.engine.errors import BackendFailed
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions
from service.observability.logging import Format, configure, request_id
from service.runtime.backend import Limits
from tests.engine.toy import SPECIAL_IDS, copying_model
from tests.engine.watching import FlakyBackend

logger = logging.getLogger("service.test")


class Output:
    """Log lines captured from standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    def text(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    """Captured log output; restores the logging configuration afterwards."""
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    loggers = [logging.getLogger(name) for name in names]
    before = [(log, log.handlers[:], log.filters[:], log.level, log.propagate) for log in loggers]
    yield Output(capsys)
    for log, handlers, filters, level, propagate in before:
        log.handlers[:], log.filters[:], log.propagate = handlers, filters, propagate
        log.setLevel(level)


def test_a_line_is_one_json_object_with_its_facts(output: Output) -> None:
    configure("info", "json")
    logger.info("translated %d sentences", 3, extra={"route": "/translate", "milliseconds": 12.5})
    (line,) = output.lines()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "service.test",
        "message": "translated 3 sentences",
        "route": "/translate",
        "milliseconds": 12.5,
    }


def test_every_line_of_a_request_carries_its_id_and_no_other_line_does(output: Output) -> None:
    configure("info", "json")

    async def serve(identifier: str) -> None:
        request_id.set(identifier)
        await asyncio.sleep(0)
        logger.info("served")
        await asyncio.to_thread(logger.info, "helped")

    async def both() -> None:
        await asyncio.gather(serve("a"), serve("b"))

    asyncio.run(both())
    logger.info("idle")
    found = [(line["message"], line.get("request_id")) for line in output.lines()]
    assert sorted(found[:-1]) == [
        ("helped", "a"),
        ("helped", "b"),
        ("served", "a"),
        ("served", "b"),
    ]
    assert found[-1] == ("idle", None)


@pytest.mark.parametrize("format", ["json", "console"])
def test_texts_and_secrets_are_withheld(output: Output, format: Format) -> None:
    configure("debug", format)
    logger.info("request", extra={"q": "Geheimnis", "api_key": "hunter2", "sentences": 1})
    logging.getLogger("uvicorn.access").info(
        '%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", "/translate?q=Geheimnis", "1.1", 405
    )
    written = output.text()
    assert "Geheimnis" not in written
    assert "hunter2" not in written
    assert written.count("[withheld]") == 2
    assert "GET /translate HTTP/1.1" in written


def test_engine_logs_failures_without_sentences(output: Output) -> None:
    configure("debug", "json")
    limits = Limits(slots=2, rows_per_slot=4, source_length=8, target_length=16)
    backend = FlakyBackend(copying_model, limits)
    backend.failing_steps = 1
    engine = Engine(backend, Scheduler(limits, SPECIAL_IDS))

    async def fail() -> None:
        await engine.start()
        with pytest.raises(BackendFailed):
            await engine.decode((7, 8, 9), DecodingOptions(beam_size=1))
        await engine.close()

    asyncio.run(fail())
    (line,) = [line for line in output.lines() if line["logger"].startswith("service")]
    assert line["level"] == "error"
    assert line["message"] == "a step of 1 sentences failed"
    assert "RuntimeError: out of memory" in line["exception"]
    assert "7, 8, 9" not in output.text()


def test_level_is_applied_and_reconfiguring_replaces_handlers(output: Output) -> None:
    configure("info", "json")
    configure("warning", "json")
    logger.info("unseen")
    logger.warning("seen")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    assert [line["logger"] for line in output.lines()] == ["service.test", "py.warnings"]
    unknown: list[tuple[str, Format]] = [("loud", "json"), ("info", cast(Format, "xml"))]
    for level, format in unknown:
        with pytest.raises(ValueError, match="is none of"):
            configure(level, format)


def test_uvicorn_writes_in_the_same_format(output: Output) -> None:
    for name in ("uvicorn", "uvicorn.access"):
        uvicorn = logging.getLogger(name)
        uvicorn.addHandler(logging.StreamHandler())
        uvicorn.propagate = False
    configure("info", "json")
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.info("Started server")
    uvicorn.warning("Invalid request", extra={"color_message": "\x1b[36mInvalid request"})
    (line,) = output.lines()
    assert line["message"] == "Invalid request"
    assert "color_message" not in line


def test_client_values_cannot_forge_log_lines(output: Output) -> None:
    configure("info", "console")
    token = request_id.set("1\n2026-11-21 INFO all is well\x1b[2J\x85")
    try:
        logger.info("served")
    finally:
        request_id.reset(token)
    assert output.text().count("\n") == 1
    assert "served request_id=1\\n2026" in output.text()
    assert output.text().endswith("well\\x1b[2J\\x85\n")


def test_a_console_line_is_readable(output: Output) -> None:
    configure("info", "console")
    logger.warning("slow", extra={"milliseconds": 900})
    try:
        raise RuntimeError("out of memory")
    except RuntimeError:
        logger.exception("failed")
    first, second, *traceback = output.text().splitlines()
    assert first.endswith("WARNING  service.test: slow milliseconds=900")
    assert second.endswith("ERROR    service.test: failed")
    assert traceback[0].startswith("Traceback")
    assert traceback[-1] == "RuntimeError: out of memory"
