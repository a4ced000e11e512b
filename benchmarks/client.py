"""Load generator: many clients of a translation service in one process.

    python -m benchmarks.client URL < PLAN

Plan and result are JSON. It shares the machine with the service, so its processor time is taken
from the service. It therefore keeps connections open and speaks HTTP directly, at a tenth of the
cost of a general HTTP client.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

_DRAIN_SECONDS = 10.0
LOST = math.inf
"""Latency of a request that was refused or not answered in time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Load of a run: requests at a fixed ``rate``, or from ``clients`` that send one at a time.

    With a rate, requests arrive as a Poisson process, independent of answers (open loop), and
    latency counts from the moment a request is due. The run ends early if far more requests are
    pending than a service that answers within ``hopeless_seconds`` could have.
    """

    bodies: tuple[str, ...]
    seconds: float
    rate: float = 0.0
    clients: int = 0
    hopeless_seconds: float = 2.0
    seed: int = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """Number of the body, time of the answer, and latency in seconds."""

    body: int
    at: float
    latency: float


def send(url: str, plan: Plan) -> list[Outcome]:
    """Run a plan in another process; raises ``RuntimeError`` if that fails."""
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", url],
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(f"the clients of {url} failed: {finished.stderr.strip()}")
    return [Outcome(*each) for each in json.loads(finished.stdout)]


class _Connection:
    """A persistent HTTP connection that sends one translation request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname, parts.port
        self._head = f"POST /translate HTTP/1.1\r\nHost: {parts.netloc}\r\n".encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> bool:
        """Whether the service answered with a translation."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(
            self._head
            + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(
            line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line
        )
        await reader.readexactly(int(fields[b"content-length"]))
        if fields.get(b"connection", b"").strip() == b"close":
            self.close()
        return head.split(b" ", 2)[1] == b"200"

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _LoadGenerator:
    """Sends the requests of a plan and records their outcomes."""

    def __init__(self, url: str, plan: Plan) -> None:
        self._url = url
        self._plan = plan
        self._bodies = [body.encode() for body in plan.bodies]
        self._idle: list[_Connection] = []
        self._started = 0.0
        self.outcomes: list[Outcome] = []

    async def run(self) -> None:
        self._started = time.perf_counter()
        if self._plan.clients:
            await asyncio.gather(*(self._run_closed_loop(i) for i in range(self._plan.clients)))
        else:
            await self._run_open_loop()

    async def _run_closed_loop(self, first: int) -> None:
        body = first
        while self._now() < self._plan.seconds:
            await self._request(body % len(self._bodies), self._now())
            body += self._plan.clients

    async def _run_open_loop(self) -> None:
        plan, number = self._plan, 0
        waiting: set[asyncio.Task[None]] = set()
        gaps, due = random.Random(plan.seed), 0.0
        while (due := due + gaps.expovariate(plan.rate)) < plan.seconds:
            await asyncio.sleep(max(0.0, due - self._now()))
            task = asyncio.create_task(self._request(number % len(self._bodies), due))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            number += 1
            if len(waiting) > 32 + plan.rate * plan.hopeless_seconds:
                break
        else:
            if waiting:
                await asyncio.wait(waiting, timeout=_DRAIN_SECONDS)
        for task in list(waiting):
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        self.outcomes += [Outcome(0, self._now(), LOST)] * (number - len(self.outcomes))

    async def _request(self, body: int, due: float) -> None:
        connection = self._idle.pop() if self._idle else _Connection(self._url)
        try:
            answered = await connection.post(self._bodies[body])
            self._idle.append(connection)
        except (OSError, EOFError):
            connection.close()
            answered = False
        except BaseException:
            connection.close()
            raise
        now = self._now()
        self.outcomes.append(Outcome(body, now, now - due if answered else LOST))

    def _now(self) -> float:
        return time.perf_counter() - self._started


def main(arguments: Sequence[str]) -> int:
    plan = Plan(**json.load(sys.stdin))
    generator = _LoadGenerator(arguments[0], plan)
    asyncio.run(generator.run())
    print(json.dumps([(each.body, each.at, each.latency) for each in generator.outcomes]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
