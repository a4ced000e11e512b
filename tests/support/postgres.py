"""A PostgreSQL server of the tests, in a directory of theirs, on a Unix socket."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr

from tests.support.programs import output_of, started

_CONFIGURATION = "-c fsync=off -c full_page_writes=off -c listen_addresses= -c max_connections=200"


def programs() -> Path | None:
    """The directory of ``initdb`` and ``postgres``; Debian has it outside of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).resolve())
    return found[-1].parent if found else None


def missing() -> str:
    """Why no server can be started here; empty if one can."""
    if find_spec("psycopg") is None:
        return "psycopg not installed"
    return "" if programs() else "postgresql not installed"


class Postgres:
    """A server that tests may kill and start again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bin = programs()
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root.
        self._user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(directory, **self._user)
        self._run("initdb", "-D", str(directory / "data"), "-U", "dragoman", "--no-sync")

    def start(self) -> None:
        assert self._bin is not None
        command = [str(self._bin / "postgres"), "-D", str(self._directory / "data")]
        self._process = subprocess.Popen(
            [*command, "-k", str(self._directory), *_CONFIGURATION.split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            # Tests send signals, which would end it, to their process group.
            start_new_session=True,
            **self._user,  # type: ignore[call-overload]
        )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline and self._process.poll() is None
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End the server, at once by default."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def create(self, *options: str) -> SecretStr:
        """The address of a database without tables."""
        name = f"test_{secrets.token_hex(6)}"
        self._run("createdb", "-h", str(self._directory), "-U", "dragoman", *options, name)
        return SecretStr(f"postgresql://dragoman@/{name}?host={quote(str(self._directory), '')}")

    def _answers(self) -> bool:
        assert self._bin is not None
        command = [str(self._bin / "pg_isready"), "-q", "-h", str(self._directory)]
        return subprocess.run(command, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        assert self._bin is not None
        output_of(str(self._bin / program), *arguments, cwd=self._directory, **self._user)


running = partial(started, Postgres, "pg-")
