"""Lock of a run's directory, so that no two processes prepare or train the same run at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from training.disk import writing
from training.refusal import Refusal
from training.run_directory import RunDirectory

_held: set[Path] = set()
"""Directories that this process has locked: hops of one command lock the same run again."""


class RunInUse(Refusal):
    """Another process prepares or trains the run; the message says what to do."""


@contextlib.contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Context in which no other process may prepare or train the run.

    Creates the directory, and removes it again if it is empty afterwards. The operating system
    releases the lock of a killed process. Raises ``RunInUse`` and ``CannotWrite``.
    """
    directory = run.path.resolve()
    if directory in _held:
        yield
        return
    with writing(run.path):
        descriptor = _acquired(run)
    _held.add(directory)
    try:
        yield
    finally:
        _held.remove(directory)
        with contextlib.suppress(OSError):
            run.lock.unlink()
            # Refuses if the directory is not empty.
            run.path.rmdir()
        os.close(descriptor)


def _acquired(run: RunDirectory) -> int:
    """The descriptor of the locked file."""
    while True:
        run.path.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            # The process that held the lock has removed the directory just now.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), run.lock.stat()):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise RunInUse(
                f"another process prepares or trains {run.path}; wait until it has ended, or "
                "choose another directory with --runs"
            ) from error
        except FileNotFoundError:
            pass
        # The process that held the lock has removed the file since it was opened.
        os.close(descriptor)
