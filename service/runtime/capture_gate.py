"""Keeps the capture of CUDA graphs and the opening of sessions apart.

ONNX Runtime synchronises the device when it opens a session on it. While any thread captures, CUDA
refuses this and invalidates the capture. The capture mode of a thread does not change this rule.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CaptureGate:
    """State of all captures and openings of a process. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._captures = 0
        self._openings = 0

    @contextmanager
    def capture(self) -> Iterator[bool]:
        """Whether the calling thread may capture within the block: not while a session opens."""
        with self._changed:
            allowed = not self._openings
            self._captures += allowed
        try:
            yield allowed
        finally:
            with self._changed:
                self._captures -= allowed
                self._changed.notify_all()

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Wait for the captures in progress, and allow no other one within the block."""
        with self._changed:
            self._openings += 1
            self._changed.wait_for(lambda: not self._captures)
        try:
            yield
        finally:
            with self._changed:
                self._openings -= 1
