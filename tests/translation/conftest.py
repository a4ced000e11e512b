"""Fixtures of all tests of translation."""

from __future__ import annotations

from tests.support.loop_monitor import responsive_loop

__all__ = ["responsive_loop"]
