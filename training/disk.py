"""Writing to a disk that may be full, or not ours to write to."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from training.refusal import Refusal


class CannotWrite(Refusal):
    """A directory cannot be written to, or its disk is full, and what to do."""


@contextlib.contextmanager
def writing(directory: Path, needed: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Turns what the system says of a disk into ``CannotWrite``.

    ``needed`` says how many bytes are needed in all, about; it is asked when the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CannotWrite(_full(directory, needed())) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise CannotWrite(
                f"{error.filename or directory} cannot be used: {error.strerror}; choose "
                "another directory with --runs or --bundles"
            ) from error
        raise


def _full(directory: Path, needed: int) -> str:
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    about = f"; about {megabytes(needed)} are needed in all" if needed else ""
    return (
        f"the disk of {directory} is full: {megabytes(free)} are free{about}; make room, or choose "
        "another directory with --runs"
    )


def megabytes(count: int) -> str:
    return f"{max(1, round(count / 1e6)):,} MB" if count else "0 MB"
