"""Announces events to all processes that share the stored state, by a counter that they poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from service.state.database import Database
from service.state.errors import StateFailed
from service.state.revisions import bump, revision_of

_POLL_SECONDS = 1.0


class Announcements:
    """Events of one name, such as requests to reload the models."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._seen: int | None = None
        # Serialises reads and announcements of this process, which it does not react to.
        self._exchanging = asyncio.Lock()

    async def announce(self) -> None:
        """Count an event, which the other processes notice; raises ``StateFailed``."""
        async with self._exchanging:
            self._seen = await self._database.write(lambda c: bump(c, self._name))

    async def watch(self, react: Callable[[], None]) -> None:
        """Call ``react`` within about a second after another process has announced an event."""
        while True:
            # The database has logged why it is away. Events are noticed when it is back.
            with suppress(StateFailed):
                async with self._exchanging:
                    present = await self._database.read(lambda c: revision_of(c, self._name))
                    before, self._seen = self._seen, present
                # A database that was restored from a copy counts from an earlier number.
                if before is not None and present != before:
                    react()
            await asyncio.sleep(_POLL_SECONDS)
