"""Runs the owner and the workers as processes, restarts those that exit, and drains them.

SIGTERM or SIGINT stops the owner first: it answers the requests in progress and refuses others,
through the workers. The workers stop once it is gone. A second signal kills all. SIGHUP is passed
to the owner.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from service.observability.logging import configure

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that the supervisor handles; they may be blocked when it starts."""

_DONE, _SIGNALLED = 0, 128
_SAME_SECONDS = 0.5
"""Signals within this time count as one: a wrapper may forward a signal to its whole group."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
"""Seconds before a restart. They double for each exit within ``_SOON_SECONDS`` of the start."""
_SOON_SECONDS = 10.0
_PROBE_SECONDS, _MOST_SILENT_PROBES = 5.0, 6
"""Seconds between probes of the owner, and for an answer; it is killed after so many without."""
_PROBE = b"GET /livez HTTP/1.1\r\nhost: owner\r\nconnection: close\r\n\r\n"
_KILL_SECONDS = 10.0
"""How much longer than the time of its drain a process may take to exit."""


class Supervisor:
    probe_seconds = _PROBE_SECONDS

    def __init__(
        self,
        owner: Sequence[str],
        path: Path,
        listener: socket.socket,
        *,
        workers: int,
        shutdown_seconds: float,
    ) -> None:
        """``owner`` is the command of the owner, which listens on the Unix socket ``path``.

        Connections of clients come to ``listener``, which ``run`` closes.
        """
        self._owner = _Child("owner", owner)
        program = (sys.executable, "-m", "service.workers.worker")
        command = (*program, str(listener.fileno()), str(path), str(os.getpid()))
        self._workers = [
            _Child(f"worker {number}", command, (listener.fileno(),))
            for number in range(1, workers + 1)
        ]
        self._path = path
        self._listener = listener
        self._seconds = shutdown_seconds
        self._stop = asyncio.Event()
        self._signalled_at = 0.0
        self._exit_code = _DONE
        self._stopped_by = signal.SIGTERM

    async def run(self) -> int:
        """Keep all processes running until a signal; returns the exit code.

        Ends with the owner's exit code if that exits before it listens for the first time.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGHUP, self._owner.send, signal.SIGHUP)
        # Child processes inherit the mask.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        async with asyncio.TaskGroup() as group:
            for child in (self._owner, *self._workers):
                group.create_task(self._keep(child))
            watching = group.create_task(self._watch_owner())
            await self._stop.wait()
            watching.cancel()
            # The workers still accept. The last one to close it refuses further connections.
            self._listener.close()
            # An owner that does not listen has no handler of SIGINT yet.
            number = self._stopped_by if self._path.exists() else signal.SIGTERM
            await self._owner.stop(self._seconds, number)
            for worker in self._workers:
                group.create_task(worker.stop(self._seconds))
        return self._exit_code

    async def _keep(self, child: _Child) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            started = time.monotonic()
            await child.start()
            if self._stop.is_set():
                child.send(signal.SIGTERM)
            code = await child.exited()
            if self._stop.is_set():
                return
            if child is self._owner and not self._path.exists():
                self._exit_code = code if code > 0 else _SIGNALLED - code
                self._stop.set()
                return
            logger.error("%s (process %d) exited with %d; it is restarted", child, child.pid, code)
            quick = time.monotonic() - started < _SOON_SECONDS
            pause = min(2 * pause, _LONGEST_PAUSE) if quick else _FIRST_PAUSE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    async def _watch_owner(self) -> None:
        """Kill an owner that has answered before and does not answer any longer."""
        answered, silent = 0, 0
        while True:
            await asyncio.sleep(self.probe_seconds)
            pid = self._owner.pid
            try:
                async with asyncio.timeout(self.probe_seconds):
                    reader, writer = await asyncio.open_unix_connection(self._path)
                    try:
                        writer.write(_PROBE)
                        alive = bool(await reader.read(1))
                    finally:
                        writer.transport.abort()
            except OSError:  # Also TimeoutError.
                alive = False
            if alive:
                answered, silent = pid, 0
            elif answered == pid == self._owner.pid:
                silent += 1
            else:
                silent = 0
            if silent >= _MOST_SILENT_PROBES:
                logger.error("owner (process %d) does not answer and is killed", pid)
                self._owner.send(signal.SIGKILL)
                silent = 0

    def _signalled(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if self._stop.is_set():
            if now - self._signalled_at >= _SAME_SECONDS:
                logger.warning("stopped at once")
                for child in (self._owner, *self._workers):
                    child.send(signal.SIGKILL)
                self._exit_code = _SIGNALLED + number
            return
        self._signalled_at, self._stopped_by = now, number
        # A shell expects 130 after Ctrl-C; for a supervisor, exit after SIGTERM is a success.
        self._exit_code = _SIGNALLED + number if number == signal.SIGINT else _DONE
        self._stop.set()


class _Child:
    """A process that is started again and again."""

    def __init__(self, name: str, command: Sequence[str], files: Sequence[int] = ()) -> None:
        self._name = name
        self._command = command
        self._files = files
        self._process: asyncio.subprocess.Process | None = None

    def __str__(self) -> str:
        return self._name

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        # Ctrl-C signals the whole group of the terminal; the supervisor passes it on in order.
        self._process = await asyncio.create_subprocess_exec(
            *self._command, pass_fds=self._files, start_new_session=True
        )
        logger.info("%s is process %d", self._name, self._process.pid)

    async def exited(self) -> int:
        """Wait for the exit of the started process; its code is negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self, seconds: float, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the process, and kill it when it takes much longer than ``seconds``."""
        if self._process is None:
            return
        self.send(number)
        try:
            await asyncio.wait_for(self._process.wait(), seconds + _KILL_SECONDS)
        except TimeoutError:
            logger.error("%s did not stop in time and is killed", self._name)
            self.send(signal.SIGKILL)
            await self._process.wait()


def main() -> int:
    """The program of the supervisor; ``dragoman serve`` becomes it. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listener", type=int, required=True, help="inherited file descriptor")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--shutdown-seconds", type=float, required=True)
    parser.add_argument("--log-level", required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("owner", nargs="+", help="command of the owner, without its socket")
    options = parser.parse_args()
    configure(options.log_level, options.log_format)
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-") as directory,
        socket.socket(fileno=options.listener) as listener,
    ):
        path = Path(directory) / "owner"
        supervisor = Supervisor(
            [*options.owner, "--owner-socket", str(path), "--parent", str(os.getpid())],
            path,
            listener,
            workers=options.workers,
            shutdown_seconds=options.shutdown_seconds,
        )
        return asyncio.run(supervisor.run())


if __name__ == "__main__":
    sys.exit(main())
