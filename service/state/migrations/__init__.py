"""Alembic's migrations of the state. A published migration is never edited.

A migration only adds tables and columns with defaults, so that processes of the version before go
on while a fleet is updated.
"""
