"""Tables of the persistent state, for SQLite and PostgreSQL alike.

``create`` makes those of ``LATEST``, and ``service/state/migrations`` the same from earlier ones.
Times in ``TEXT`` are ISO 8601 in UTC.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

LATEST = 5
"""Number of the last migration, and ``user_version`` of files, by which an earlier Dragoman refuses
to open them."""

METADATA = MetaData()

API_KEYS = Table(
    "api_keys",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("requests_per_minute", BigInteger),
    Column("characters_per_month", BigInteger),
    Column("bulk", Boolean, nullable=False),
    Column("created", Text, nullable=False),
    Column("models", Text),
    Column("languages", Text),
)
"""``models`` and ``languages`` are JSON lists; without one, all are permitted."""

KEY_SECRETS = Table(
    "key_secrets",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("name", Text, ForeignKey("api_keys.name", ondelete="CASCADE"), nullable=False),
    Column("created", Text, nullable=False),
    Column("expires", Text),
)

USAGE = Table(
    "usage",
    METADATA,
    Column("caller", Text, primary_key=True),
    Column("month", Text, primary_key=True),
    Column("characters", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
)

USAGE_BY_DAY = Table(
    "usage_by_day",
    METADATA,
    Column("caller", Text, primary_key=True),
    Column("day", Text, primary_key=True),
    Column("characters", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
)

SETTLEMENTS = Table(
    "settlements",
    METADATA,
    Column("ledger", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("written", Text, nullable=False),
)
"""The last batch of usage that each process has written."""

GLOSSARIES = Table(
    "glossaries",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text),
    Column("name", Text, nullable=False),
    Column("created", Text, nullable=False),
    Index("glossaries_by_owner", "owner", "created"),
)

DICTIONARIES = Table(
    "dictionaries",
    METADATA,
    Column("glossary", Text, ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("entry_count", Integer, nullable=False),
    Column("digest", Text, nullable=False, server_default=""),
    Column("entries", Text, nullable=False),
)

MEMORIES = Table(
    "memories",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text),
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("targets", Text, nullable=False),
    Column("unit_count", Integer, nullable=False),
    Column("created", Text, nullable=False),
    Index("memories_by_owner", "owner", "created"),
)

MEMORY_PARTS = Table(
    "memory_parts",
    METADATA,
    Column("memory", Text, ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("units", Text, nullable=False),
)

MEMORY_JOBS = Table(
    "memory_jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text),
    Column("operation", Text, nullable=False),
    Column("secret", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("file_bytes", BigInteger, nullable=False),
    Column("memory", Text),
    Column("error", Text),
    Column("skipped", Integer, nullable=False),
    Column("created", Text, nullable=False),
)

SUGGESTIONS = Table(
    "suggestions",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("received", Text, nullable=False),
    Column("owner", Text),
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("suggestion", Text, nullable=False),
)

DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("key_digest", LargeBinary, nullable=False),
    Column("caller", Text),
    Column("account", Text, nullable=False),
    Column("month", Text, nullable=False),
    Column("filename", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("content_type", Text, nullable=False, server_default=""),
    Column("characters", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text),
    Column("progress", Double, nullable=False, server_default="0"),
    Column("accepted", Double, nullable=False),
    Column("changed", Double, nullable=False),
    Column("scope", Text, nullable=False),
    Column("linked", Boolean, nullable=False),
    Column("worker", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("lease_until", Double, nullable=False, server_default="0"),
    Index("documents_by_state", "state"),
)
"""Jobs. Times are seconds since 1970. ``month`` is that of ``account``'s usage."""

CONTENTS = Table(
    "document_contents",
    METADATA,
    Column("document", Text, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("instructions", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
"""The document of each job, or its translation once it is done, and the options of it."""

REVISIONS = Table(
    "revisions",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""Counters of changes, which processes poll."""

_ALEMBIC = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table."""


def create(connection: Connection) -> None:
    """Create all tables, as all migrations would, which take six times as long.

    Raises ``SQLAlchemyError`` if there is a table of the same name, which is not adopted.
    """
    METADATA.create_all(connection, checkfirst=False)
    _ALEMBIC.create(connection)
    connection.execute(_ALEMBIC.insert(), {"version_num": str(LATEST)})


def upsert(connection: Connection, table: Table) -> Any:
    """An ``INSERT`` of the connection's database, which has ``on_conflict_do_update``."""
    if connection.dialect.name == "sqlite":
        return sqlite_insert(table)
    # A process with SQLite does not need the module, which takes long to import.
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)
