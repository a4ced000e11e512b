"""Tests of helper processes: limits, failures, cancellation and replacement."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.helpers.helper import HelperFailed, HelperOutOfMemory, Helpers, HelperTooSlow
from tests.support.programs import ROOT
from tests.support.waiting import cancelled, until, wait_until

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce it")


@asynccontextmanager
async def helping(**limits: Any) -> AsyncIterator[Helpers]:
    limits = {"count": 1, "seconds": 60.0, "answer_bytes": 1 << 20, **limits}
    helpers = Helpers("tests.helpers.answering", **limits)
    try:
        yield helpers
    finally:
        await helpers.close()
        assert helpers.processes == []


async def helper_pid(helpers: Helpers) -> int:
    (number,) = await helpers.ask(b"who")
    return int(number)


@asynccontextmanager
async def replacing(**limits: Any) -> AsyncIterator[tuple[Helpers, int]]:
    """Helpers of which one runs, with its process; another must run at the end."""
    async with helping(**limits) as helpers:
        first = await helper_pid(helpers)
        yield helpers, first
        assert await helper_pid(helpers) != first


async def asleep(helpers: Helpers) -> asyncio.Task[list[bytes]]:
    """A call that a helper has begun and will not end soon."""
    asked = asyncio.create_task(helpers.ask(b"sleep", b"60"))
    await asyncio.sleep(0)
    return asked


async def test_an_answer_has_its_parts_and_no_printed_text() -> None:
    async with helping() as helpers:
        assert await helpers.ask(b"say", b"", b"a" * 200_000, b"b") == [b"", b"a" * 200_000, b"b"]
        assert await helpers.ask(b"say") == []


async def test_helpers_are_started_when_needed_up_to_count_and_serve_every_caller() -> None:
    async with helping(count=2) as helpers:
        assert helpers.processes == []
        first = await helper_pid(helpers)
        assert [await helper_pid(helpers) for _ in range(3)] == [first] * 3
        assert helpers.processes == [first]
        asked = [asyncio.create_task(helper_pid(helpers)) for _ in range(6)]
        assert len(set(await asyncio.gather(*asked))) == 2
    async with helping(count=1) as helpers:
        calls = [helpers.ask(b"say", caller.encode(), caller=caller) for caller in "aab"]
        assert await asyncio.gather(*calls) == [[b"a"], [b"a"], [b"b"]]


async def test_one_caller_never_occupies_all_helpers() -> None:
    async with helping(count=2) as helpers:
        slow = [asyncio.create_task(helpers.ask(b"sleep", b"60", caller="greedy")) for _ in "abc"]
        await until(lambda: helpers.processes, 0)
        for caller in ("other", None):
            assert await helpers.ask(b"say", b"done", caller=caller) == [b"done"]
        await cancelled(*slow)
        assert await helpers.ask(b"say", b"done", caller="greedy") == [b"done"]


async def test_time_limit_of_a_call_is_at_most_that_of_the_pool() -> None:
    async with helping(seconds=0.2) as helpers:
        for limits in ({}, {"seconds": 60.0}, {"seconds": 0.1}):
            with pytest.raises(HelperTooSlow, match=r"within 0\.[12] seconds"):
                await helpers.ask(b"sleep", b"60", **limits)
            assert helpers.processes == [], "it is killed"


@pytest.mark.parametrize("how", [b"leave", b"lie", b"fail"])
async def test_a_helper_without_an_answer_fails_one_call_and_is_replaced(how: bytes) -> None:
    async with replacing() as (helpers, _):
        with pytest.raises(HelperFailed) as failed:
            await helpers.ask(how, b"secret")
        assert "secret" not in str(failed.value)


async def test_a_helper_killed_at_work_raises_with_the_signal_and_is_replaced() -> None:
    async with replacing() as (helpers, first):
        asked = await asleep(helpers)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(HelperFailed, match="SIGKILL"):
            await asked


async def test_a_helper_killed_while_idle_is_replaced_without_an_error() -> None:
    async with replacing() as (helpers, first):
        os.kill(first, signal.SIGKILL)
        process = helpers._all[0]._process
        assert process is not None
        await process.wait()


@ON_LINUX
async def test_a_helper_over_its_memory_limit_fails_and_is_replaced() -> None:
    async with replacing(memory_bytes=64 << 20) as (helpers, _):
        assert await helpers.ask(b"take", b"%d" % (32 << 20)) == [b"33554432"]
        with pytest.raises(HelperOutOfMemory):
            await helpers.ask(b"take", b"%d" % (96 << 20))


async def test_a_helper_with_high_peak_memory_answers_and_exits() -> None:
    async with replacing() as (helpers, _):
        assert await helpers.ask(b"take", b"%d" % (300 << 20)) == [b"314572800"]
        assert helpers.processes == []


async def test_an_oversized_answer_is_not_read() -> None:
    async with helping(answer_bytes=1000) as helpers:
        with pytest.raises(HelperFailed, match="at most 1000"):
            await helpers.ask(b"flood", b"2000")
        assert await helpers.ask(b"flood", b"900") == [bytes(900)]


async def test_cancelling_a_call_kills_its_helper() -> None:
    async with replacing() as (helpers, _):
        asked = await asleep(helpers)
        await cancelled(asked)
        assert asked.cancelled()


async def test_closing_fails_pending_calls() -> None:
    async with helping() as helpers:
        await helper_pid(helpers)
        asked = await asleep(helpers)
        await helpers.close()
        with pytest.raises(HelperFailed):
            await asked


@ON_LINUX
@pytest.mark.parametrize("at_work", [False, True], ids=["idle", "at work"])
def test_helpers_die_when_the_server_is_killed(at_work: bool) -> None:
    program = """
        import asyncio, os, signal
        from service.helpers.helper import Helpers
        async def main():
            helpers = Helpers("tests.helpers.answering", count=1, seconds=99.0, answer_bytes=99)
            await helpers.ask(b"who")
            if {at_work}:
                asyncio.create_task(helpers.ask(b"sleep", b"99"))
                await asyncio.sleep(0)
            print(*helpers.processes, flush=True)
            await asyncio.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program.format(at_work=at_work))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL
    wait_until(lambda: not runs(int(ended.stdout)))


def runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1]
    except OSError:
        return False
    return state.split()[0] not in "ZX"
