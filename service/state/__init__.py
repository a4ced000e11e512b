"""Persistent state in SQLite: API keys, usage, glossaries, suggestions. Independent of HTTP."""
