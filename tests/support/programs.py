"""Other programs that tests run."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

ROOT = Path(__file__).parents[2]
"""The root directory of the repository."""


def output_of(program: str, *arguments: str, cwd: Path = ROOT, **options: Any) -> str:
    """Standard output of a program that must succeed; its errors are shown otherwise."""
    command = [program, *arguments]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def python(*arguments: str, **options: Any) -> str:
    """Standard output of the tests' interpreter with arguments."""
    return output_of(sys.executable, *arguments, **options)


class Stoppable(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


_Server = TypeVar("_Server", bound=Stoppable)


@contextmanager
def started(server_in: Callable[[Path], _Server], prefix: str) -> Iterator[_Server]:
    """A running server in a directory of its own; its socket needs a short path."""
    with tempfile.TemporaryDirectory(prefix=prefix) as directory:
        server = server_in(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def resident_bytes(process: int | str = "self") -> int:
    """Resident memory of a process on Linux."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) << 10
