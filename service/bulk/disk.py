"""File operations behind an interface, so that tests can inject I/O errors."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Disk:
    """Calls the operating system; every method raises ``OSError``."""

    def open(self, path: Path) -> int:
        """Open a file to read and write, and create it if missing; returns a descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def lock(self, descriptor: int) -> None:
        """Raises ``BlockingIOError`` if another process has locked the file."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, descriptor: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def named(self, descriptor: int, path: Path) -> bool:
        """Whether ``path`` names the open file."""
        try:
            return os.path.samestat(os.fstat(descriptor), path.stat())
        except FileNotFoundError:
            return False

    def read(self, path: Path) -> bytes | None:
        """The content of a file; ``None`` if there is none."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file atomically and durably."""
        os.replace(old, new)
        _sync_names(new.parent)

    def remove(self, path: Path) -> None:
        """Remove a file durably, if it exists."""
        path.unlink(missing_ok=True)
        _sync_names(path.parent)


def _sync_names(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
