"""Functions that kill their process, in tests of what a kill leaves behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def dying(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """``function``, but for its call of this ``number``, which kills the process."""
    calls = 0

    def counting(*arguments: object, **named: object) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)

    return counting
