"""SQLite schema as a list of migrations.

``PRAGMA user_version`` counts the migrations applied to a file. A published migration is never
edited; changes are appended as another one.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE api_keys (
            name TEXT PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            requests_per_minute INTEGER,
            characters_per_month INTEGER,
            created TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE usage (
            caller TEXT NOT NULL,
            month TEXT NOT NULL,
            characters INTEGER NOT NULL,
            documents INTEGER NOT NULL,
            PRIMARY KEY (caller, month)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE glossaries (
            id TEXT PRIMARY KEY,
            owner TEXT,
            name TEXT NOT NULL,
            created TEXT NOT NULL
        )
        """,
        "CREATE INDEX glossaries_by_owner ON glossaries (owner, created)",
        """
        CREATE TABLE dictionaries (
            glossary TEXT NOT NULL REFERENCES glossaries ON DELETE CASCADE,
            source TEXT NOT NULL,
            target TEXT NOT NULL,
            entry_count INTEGER NOT NULL,
            entries TEXT NOT NULL,
            PRIMARY KEY (glossary, source, target)
        )
        """,
        """
        CREATE TABLE suggestions (
            id INTEGER PRIMARY KEY,
            received TEXT NOT NULL,
            owner TEXT,
            source TEXT NOT NULL,
            target TEXT NOT NULL,
            text TEXT NOT NULL,
            suggestion TEXT NOT NULL
        )
        """,
    ),
    (
        """
        CREATE TABLE memories (
            id TEXT PRIMARY KEY,
            owner TEXT,
            name TEXT NOT NULL,
            source TEXT NOT NULL,
            targets TEXT NOT NULL,
            unit_count INTEGER NOT NULL,
            created TEXT NOT NULL
        )
        """,
        "CREATE INDEX memories_by_owner ON memories (owner, created)",
        """
        CREATE TABLE memory_parts (
            memory TEXT NOT NULL REFERENCES memories ON DELETE CASCADE,
            number INTEGER NOT NULL,
            units TEXT NOT NULL,
            PRIMARY KEY (memory, number)
        )
        """,
        """
        CREATE TABLE memory_jobs (
            id TEXT PRIMARY KEY,
            owner TEXT,
            operation TEXT NOT NULL,
            secret TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            file_bytes INTEGER NOT NULL,
            memory TEXT,
            error TEXT,
            skipped INTEGER NOT NULL,
            created TEXT NOT NULL
        )
        """,
    ),
)
