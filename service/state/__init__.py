"""Persistent state in SQLite: API keys, usage, glossaries, suggestions. Knows no HTTP."""
