"""The supervisor when its owner cannot start, or stops."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path

import pytest

from service.server.supervisor import Supervisor


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
async def test_owner_that_never_listens_ends_the_supervisor_with_its_exit_code(
    tmp_path: Path, program: str, code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        supervisor = Supervisor(
            [sys.executable, "-c", program],
            tmp_path / "owner",
            listener,
            workers=1,
            shutdown_seconds=1,
        )
        assert await supervisor.run() == code


STOPPED_AFTER_ANSWERS = """
import contextlib, os, pathlib, signal, socket, sys
path, starts = sys.argv[1:]
with open(starts, "a") as file:
    file.write("x")
pathlib.Path(path).unlink(missing_ok=True)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
for _ in range(5):  # On a loaded machine, an answer may come later than its probe waits.
    client, _ = server.accept()
    with client, contextlib.suppress(OSError):
        client.recv(1024)
        client.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
os.kill(os.getpid(), signal.SIGSTOP)
"""


async def test_stopped_owner_is_killed_and_restarted(tmp_path: Path) -> None:
    path, starts = tmp_path / "owner", tmp_path / "starts"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        owner = [sys.executable, "-c", STOPPED_AFTER_ANSWERS, str(path), str(starts)]
        supervisor = Supervisor(owner, path, listener, workers=0, shutdown_seconds=0)
        supervisor.probe_seconds = 0.1
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            while not starts.exists() or len(starts.read_text()) < 2:
                await asyncio.sleep(0.01)
        supervisor._signalled(signal.SIGTERM)
        supervisor._signalled_at -= 1
        supervisor._signalled(signal.SIGTERM)
        await running
