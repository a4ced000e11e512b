"""Adds API keys to the state of a service under test."""

from __future__ import annotations

import asyncio

from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore


def add_key(settings: Settings, name: str, key: str) -> None:
    async def add() -> None:
        async with Database(settings.state / FILE_NAME) as database:
            await KeyStore(database).add(name, key)

    asyncio.run(add())
