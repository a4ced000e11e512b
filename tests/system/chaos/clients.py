"""``python -m tests.system.chaos.clients``: load of two hundred clients, a third of which hang up.

Prints one line of JSON: counts of requests and outcomes. Every request is in one column, so that
they can be compared with the server's metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass, field

from tests.system.chaos.requests import CheckedRequest, ServerFacts, random_request
from tests.system.chaos.wire import Answer, Connection, Gone

NICENESS = 5
"""Nice value: clients must not take processor time from the server."""
_PAUSE_SECONDS = 0.2
_HANG_UP_SECONDS = 0.4


@dataclass(slots=True)
class Tally:
    sent: int = 0
    """Requests whose head was sent completely."""
    answers: dict[str, int] = field(default_factory=dict)
    """Answers by status; ``broken`` is an error after the answer had begun."""
    cancelled: int = 0
    """Requests among ``sent``, cancelled by hanging up."""
    unanswered: int = 0
    """Requests without an answer."""
    lost: list[str] = field(default_factory=list)
    """Requests whose connection the server closed."""
    incorrect: list[str] = field(default_factory=list)
    longest: float = 0.0
    """Longest wait for an answer in seconds."""


class Client:
    def __init__(
        self,
        port: int,
        seed: int,
        facts: ServerFacts,
        tally: Tally,
        *,
        hangs_up: bool,
        longest_wait: float,
        address: str = "127.0.0.1",
    ) -> None:
        self._port = port
        self._address = address
        self._random = random.Random(seed)
        self._facts = facts
        self._tally = tally
        self._hangs_up = hangs_up
        self._longest_wait = longest_wait
        self._connection: Connection | None = None

    async def run(self, until: float) -> None:
        await asyncio.sleep(self._random.random())
        while time.monotonic() < until:
            request = random_request(self._random, self._facts)
            try:
                async with asyncio.timeout(self._longest_wait):
                    await (self._hang_up(request) if self._hangs_up else self._complete(request))
            except TimeoutError:
                self._tally.unanswered += 1
                self._close()
            except (Gone, OSError) as error:
                self._tally.lost.append(f"{request.request.path.split('?')[0]}: {error!r}")
                self._close()
            await asyncio.sleep(self._random.expovariate(1 / _PAUSE_SECONDS))
        self._close()

    async def _complete(self, request: CheckedRequest) -> None:
        connection = await self._connected()
        head, body = request.request.encode()
        connection.send(head + body)
        self._tally.sent += 1
        started = time.monotonic()
        answer = await connection.answer()
        self._tally.longest = max(self._tally.longest, time.monotonic() - started)
        outcome = _outcome(answer)
        self._tally.answers[outcome] = self._tally.answers.get(outcome, 0) + 1
        wrong = outcome == "200" and not request.is_correct(answer.body)
        # A few are enough, and more would fill the pipe that is read when the clients have ended.
        if wrong and len(self._tally.incorrect) < 20:
            self._tally.incorrect.append(f"{request.request} -> {answer.body!r}")
        if answer.headers.get("connection") == "close":
            self._close()

    async def _hang_up(self, request: CheckedRequest) -> None:
        """Hang up at a random point between the first byte sent and the last one received."""
        connection = await self._connected()
        head, body = request.request.encode()
        place = self._random.choice(["head", "body", "waiting", "waiting", "waiting", "answer"])
        if place == "head":
            connection.send(head[: self._random.randrange(1, len(head) - 2)])
        elif place == "body" and body:
            connection.send(head + body[: self._random.randrange(len(body))])
        else:
            connection.send(head + body)
        if place != "head":
            self._tally.sent += 1
            self._tally.cancelled += 1
        if place == "answer":
            await connection.some()
        else:
            await asyncio.sleep(
                self._random.choice([0, self._random.expovariate(1 / _HANG_UP_SECONDS)])
            )
        self._close(rudely=self._random.random() < 0.5)

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await Connection.open(self._port, self._address)
        return self._connection

    def _close(self, *, rudely: bool = False) -> None:
        if self._connection is not None:
            self._connection.hang_up(rudely=rudely)
            self._connection = None


def _outcome(answer: Answer) -> str:
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return "broken" if b"event: error" in answer.body else "200"
    return str(answer.status)


async def run(options: argparse.Namespace) -> Tally:
    tally = Tally()
    facts = ServerFacts(options.key, options.wrong_key, options.exact)
    until = time.monotonic() + options.seconds
    async with asyncio.TaskGroup() as group:
        for number in range(options.clients):
            client = Client(
                options.port,
                options.seed * 100_000 + number,
                facts,
                tally,
                hangs_up=number % 3 == 0 and not options.patient,
                longest_wait=options.longest_wait,
                address=options.address,
            )
            group.create_task(client.run(until))
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key", default="")
    parser.add_argument("--wrong-key", default="")
    parser.add_argument("--address", default="127.0.0.1", help="where the clients are")
    parser.add_argument(
        "--longest-wait",
        type=float,
        default=60.0,
        help="seconds after which a request counts as unanswered; more than the service may take",
    )
    parser.add_argument("--patient", action="store_true", help="no client hangs up")
    parser.add_argument("--exact", action="store_true", help="the model shouts")
    options = parser.parse_args()
    os.nice(NICENESS)
    print(json.dumps(asdict(asyncio.run(run(options)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
