"""Counts the lines that a function executes, to compare its cost for inputs of two sizes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_SLACK = 1.4


def lines_executed(call: Callable[[], object]) -> int:
    """The number of lines of Python that ``call`` executes, once for every iteration of a loop."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def grows_slowly(call: Callable[[int], object], size: int) -> bool:
    """Whether four times the input takes at most four times the lines, and a logarithm more."""
    call(size)
    few, many = (lines_executed(lambda n=n: call(n)) for n in (size, 4 * size))  # type: ignore[misc]
    allowed = 4 * math.log2(4 * size) / math.log2(size)
    return many <= _SLACK * allowed * max(few, size)
