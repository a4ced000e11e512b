"""Turns disk errors, such as a full disk or missing permission, into ``CannotWrite``."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from training.refusal import Refusal


class CannotWrite(Refusal):
    """A directory is not writable or its disk is full; the message says what to do."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.EFBIG,
    errno.EIO,
)


def writing(
    directory: Path, needed: Callable[[], int] = lambda: 0
) -> contextlib.AbstractContextManager[None]:
    """``writing_to`` for a run's directory."""
    return writing_to(lambda: {"--runs": directory}, needed)


@contextlib.contextmanager
def writing_to(
    places: Callable[[], Mapping[str, Path]], needed: Callable[[], int] = lambda: 0
) -> Iterator[None]:
    """Context that turns disk errors into ``CannotWrite``.

    ``places`` returns directories by the option that sets them; the one with the least free space
    is reported as full. ``needed`` returns about how many bytes are needed in all. Both are called
    on errors only.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            free, option, directory = min(
                (_free(directory), option, directory) for option, directory in places().items()
            )
            count = needed()
            about = f"; about {megabytes(count)} are needed in all" if count else ""
            raise CannotWrite(
                f"the disk of {directory} is full: {megabytes(free)} are free{about}; "
                f"make room, or choose another directory with {option}"
            ) from error
        if error.errno in _UNUSABLE:
            where = error.filename or " or ".join(map(str, places().values()))
            raise CannotWrite(
                f"{where} cannot be used: {error.strerror}; change that, or choose another place"
            ) from error
        raise


def _free(directory: Path) -> int:
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def megabytes(count: int) -> str:
    return f"{max(1, round(count / 1e6)):,} MB" if count else "0 MB"
