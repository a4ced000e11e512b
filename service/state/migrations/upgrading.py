"""Upgrades the tables of a connection, in a module of its own, because Alembic imports slowly."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection, present: int) -> None:
    """Run the migrations after ``present``, the schema of the tables; 0 without tables."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    if present:
        # Alembic does not know the schema of files of a Dragoman before it.
        command.stamp(config, str(present))
    command.upgrade(config, "head")
