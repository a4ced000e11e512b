"""Manual clock, and an event-loop runner for hypothesis tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

MIDDLE_OF_NOVEMBER = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Clock:
    """Fake monotonic clock; tests advance ``seconds``."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        """The date and time in UTC, starting in the middle of a November."""
        return MIDDLE_OF_NOVEMBER + timedelta(seconds=self.seconds - 1000.0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, timeout=30))
