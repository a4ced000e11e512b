"""The attacked service: sends requests to it and counts the statuses of its answers."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.system.chaos.wire import Answer, Connection, Gone, Request

_BOUNDARY = b"----a-boundary-between-fields"


@dataclass(slots=True)
class Target:
    port: int
    statuses: Counter[str] = field(default_factory=Counter)
    """Answers by status; ``closed`` without an answer, ``left`` given up by the attacker."""

    async def send(self, request: Request) -> Answer | None:
        """The answer over a connection of its own; ``None`` if the server closes it without."""
        try:
            connection = await Connection.open(self.port)
        except OSError:
            self.statuses["refused"] += 1
            return None
        try:
            connection.send(b"".join(request.encode()))
            answer = await connection.answer()
        except (Gone, OSError):
            self.statuses["closed"] += 1
            return None
        except asyncio.CancelledError:
            self.statuses["left"] += 1
            raise
        finally:
            connection.hang_up()
        self.statuses[str(answer.status)] += 1
        return answer

    async def send_all(self, requests: Iterable[Request], at_once: int = 8) -> None:
        """Send the requests, ``at_once`` at a time."""
        waiting = iter(requests)

        async def worker() -> None:
            for request in waiting:
                await self.send(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(worker())

    async def made(self, request: Request) -> dict[str, Any]:
        """The JSON of a request that prepares an attack and has to succeed."""
        answer = await self.send(request)
        assert answer is not None and answer.status in (200, 201), answer
        made: dict[str, Any] = json.loads(answer.body)
        return made

    async def raw(self, data: bytes, *, seconds: float = 0.0) -> None:
        """Send bytes, wait for ``seconds``, and reset the connection."""
        try:
            connection = await Connection.open(self.port)
        except OSError:
            self.statuses["refused"] += 1
            return
        try:
            connection.send(data)
            await asyncio.sleep(seconds)
        finally:
            connection.hang_up(rudely=True)


def translate(text: str | list[str], **fields: object) -> Request:
    """``POST /translate`` of JSON, from German to English unless said otherwise."""
    body = json.dumps({"q": text, "source": "de", "target": "en", **fields})
    return Request("POST", "/translate", body.encode())


def as_json(path: str, method: str = "POST", **fields: object) -> Request:
    return Request(method, path, json.dumps(fields).encode())


def form(path: str, pairs: Iterable[tuple[str, str]]) -> Request:
    body = urllib.parse.urlencode(list(pairs)).encode()
    return Request("POST", path, body, "application/x-www-form-urlencoded")


def upload(filename: str, content: bytes, path: str = "/v2/document", **fields: str) -> Request:
    """A document in a form; the languages have the names of both APIs."""
    languages = {"source_lang": "DE", "target_lang": "EN-GB", "source": "de", "target": "en"}
    parts = [
        b'content-disposition: form-data; name="%b"\r\n\r\n%b' % (name.encode(), value.encode())
        for name, value in {**languages, **fields}.items()
    ]
    parts.append(
        b'content-disposition: form-data; name="file"; filename="%b"\r\n'
        b"content-type: application/octet-stream\r\n\r\n%b" % (filename.encode(), content)
    )
    body = b"".join(b"--%b\r\n%b\r\n" % (_BOUNDARY, part) for part in parts)
    return Request(
        "POST",
        path,
        body + b"--%b--\r\n" % _BOUNDARY,
        f"multipart/form-data; boundary={_BOUNDARY.decode()}",
    )
