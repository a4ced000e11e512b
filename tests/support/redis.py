"""A Redis server of the tests, on a Unix socket."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from tests.support.programs import started

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")


def missing() -> str:
    """Why no server can be started here; empty if one can."""
    if find_spec("redis") is None or find_spec("limits") is None:
        return "redis or limits not installed"
    return "" if PROGRAM else "redis-server not installed"


class Redis:
    """A server that tests may kill and start again; it forgets everything then."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "socket"
        self.address = SecretStr(f"unix://{self._socket}")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--unixsocket", str(self._socket), "--save", ""],
            stdout=subprocess.DEVNULL,
            cwd=self._socket.parent,
            # Tests send signals, which would end it, to their process group.
            start_new_session=True,
        )
        deadline = time.monotonic() + 30
        while not self._socket.exists():
            assert time.monotonic() < deadline and self._process.poll() is None
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._socket.unlink(missing_ok=True)


running = partial(started, Redis, "redis-")
