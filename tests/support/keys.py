"""API keys of a service under test."""

from __future__ import annotations

from pathlib import Path

from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore, Limits


async def add_key(state: Path, name: str, key: str | None = None, **limits: int) -> str:
    """Adds a key as ``dragoman keys add`` does, and returns it."""
    async with Database(state / FILE_NAME) as database:
        return await KeyStore(database).add(name, key, Limits(**limits))
