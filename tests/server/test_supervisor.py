"""The supervisor when its owner cannot start."""

from __future__ import annotations

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
