"""Startup check that the state can be opened."""

from __future__ import annotations

from service.settings import Settings
from service.state.database import Database


async def check_state(settings: Settings) -> None:
    """Create a missing state directory and file; raises ``StateUnavailable``."""
    async with Database.at(settings.state):
        pass
