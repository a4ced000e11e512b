"""Functions that raise an error whatever they are called with, for tests that inject failures."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NoReturn

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raiser(error: BaseException) -> Callable[..., NoReturn]:
    def raises(*_: object, **__: object) -> NoReturn:
        raise error

    return raises
