"""Store of glossaries and their dictionaries, by owner. Independent of any wire format.

A glossary holds one dictionary for each of its language pairs. Owners see only their own
glossaries. Callers without a key are one owner, ``None``.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from service.state.database import Database
from service.state.entries import validate
from service.state.errors import (
    DictionaryNotFound,
    GlossaryNotFound,
    InvalidGlossary,
    TooManyGlossaries,
)
from service.state.owned import canonical, count
from service.text.types import LanguagePair, Term

LONGEST_NAME_BYTES = 1024


@dataclass(frozen=True, slots=True)
class GlossaryLimits:
    glossaries: int = 1000
    """Glossaries of one owner."""
    dictionaries: int = 100
    """Dictionaries in one glossary."""
    entries: int = 20_000
    """Entries in one dictionary."""
    characters: int = 4_000_000
    """Characters of all entries of one dictionary. A request reads up to five dictionaries."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """One language pair of a glossary, with its number of entries."""

    pair: LanguagePair
    entry_count: int


@dataclass(frozen=True, slots=True)
class Glossary:
    id: str
    """A UUID."""
    name: str
    created: datetime
    owner: str | None
    dictionaries: tuple[Dictionary, ...]
    """Dictionaries in the order they were made; ``GlossaryStore.terms`` reads their entries."""

    def dictionary(self, pair: LanguagePair) -> Dictionary:
        """Raises ``DictionaryNotFound``."""
        for dictionary in self.dictionaries:
            if dictionary.pair == pair:
                return dictionary
        raise DictionaryNotFound(self.id, pair.source, pair.target)


class GlossaryStore:
    def __init__(self, database: Database, limits: GlossaryLimits | None = None) -> None:
        self._database = database
        self._limits = limits or GlossaryLimits()

    async def create(
        self, owner: str | None, name: str, dictionaries: Mapping[LanguagePair, Iterable[Term]]
    ) -> Glossary:
        """Store a new glossary; raises ``InvalidGlossary`` or ``TooManyGlossaries``."""
        checked = {
            # The check runs in a thread, because a dictionary may have thousands of entries.
            pair: await asyncio.to_thread(self._checked, pair, terms)
            for pair, terms in dictionaries.items()
        }
        _check_name(name)
        self._check_number(len(checked))
        identifier, created = str(uuid.uuid4()), datetime.now(UTC).isoformat()
        limit = self._limits.glossaries

        def insert(connection: sqlite3.Connection) -> Glossary:
            if count(connection, "glossaries", owner) >= limit:
                raise TooManyGlossaries(limit)
            connection.execute(
                "INSERT INTO glossaries (id, owner, name, created) VALUES (?, ?, ?, ?)",
                (identifier, owner, name, created),
            )
            for pair, terms in checked.items():
                _put(connection, identifier, pair, terms)
            return _glossary(connection, owner, identifier)

        return await self._database.write(insert)

    async def all(self, owner: str | None) -> tuple[Glossary, ...]:
        """The glossaries of an owner, oldest first."""

        def select(connection: sqlite3.Connection) -> tuple[Glossary, ...]:
            rows = connection.execute(
                "SELECT id FROM glossaries WHERE owner IS ? ORDER BY created, rowid", (owner,)
            ).fetchall()
            return tuple(_glossary(connection, owner, identifier) for (identifier,) in rows)

        return await self._database.read(select)

    async def get(self, owner: str | None, identifier: str) -> Glossary:
        """One glossary; raises ``GlossaryNotFound``, as do all methods below."""
        known = canonical(identifier, GlossaryNotFound)
        return await self._database.read(lambda connection: _glossary(connection, owner, known))

    async def terms(
        self, owner: str | None, identifier: str, pair: LanguagePair
    ) -> tuple[Term, ...]:
        """The entries of one dictionary, in their order; raises ``DictionaryNotFound``."""
        known = canonical(identifier, GlossaryNotFound)

        def select(connection: sqlite3.Connection) -> tuple[Term, ...]:
            _glossary(connection, owner, known).dictionary(pair)
            return _terms(connection, known, pair)

        return await self._database.read(select)

    async def rename(self, owner: str | None, identifier: str, name: str) -> Glossary:
        """Raises ``InvalidGlossary``."""
        known = canonical(identifier, GlossaryNotFound)
        _check_name(name)

        def update(connection: sqlite3.Connection) -> Glossary:
            _glossary(connection, owner, known)
            connection.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, known))
            return _glossary(connection, owner, known)

        return await self._database.write(update)

    async def replace(
        self, owner: str | None, identifier: str, pair: LanguagePair, terms: Iterable[Term]
    ) -> Dictionary:
        """Replace all entries of one dictionary; raises ``InvalidGlossary``."""
        return await self._set(owner, identifier, pair, terms, keep=False)

    async def merge(
        self, owner: str | None, identifier: str, pair: LanguagePair, terms: Iterable[Term]
    ) -> Dictionary:
        """Add entries to a dictionary and overwrite those with the same source.

        Raises ``InvalidGlossary``.
        """
        return await self._set(owner, identifier, pair, terms, keep=True)

    async def remove(self, owner: str | None, identifier: str, pair: LanguagePair) -> None:
        """Remove a dictionary from a glossary; raises ``DictionaryNotFound``."""
        known = canonical(identifier, GlossaryNotFound)

        def delete(connection: sqlite3.Connection) -> None:
            _glossary(connection, owner, known).dictionary(pair)
            connection.execute(
                "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                (known, pair.source, pair.target),
            )

        await self._database.write(delete)

    async def delete(self, owner: str | None, identifier: str) -> None:
        known = canonical(identifier, GlossaryNotFound)

        def delete(connection: sqlite3.Connection) -> None:
            _glossary(connection, owner, known)
            connection.execute("DELETE FROM glossaries WHERE id = ?", (known,))

        await self._database.write(delete)

    async def _set(
        self,
        owner: str | None,
        identifier: str,
        pair: LanguagePair,
        terms: Iterable[Term],
        *,
        keep: bool,
    ) -> Dictionary:
        known = canonical(identifier, GlossaryNotFound)
        checked = await asyncio.to_thread(self._checked, pair, terms)

        def put(connection: sqlite3.Connection) -> Dictionary:
            glossary = _glossary(connection, owner, known)
            pairs = {dictionary.pair for dictionary in glossary.dictionaries} | {pair}
            self._check_number(len(pairs))
            merged = {term.source: term for term in _terms(connection, known, pair) if keep}
            merged |= {term.source: term for term in checked}
            self._check_entries(merged.values())
            _put(connection, known, pair, tuple(merged.values()))
            return Dictionary(pair, len(merged))

        return await self._database.write(put)

    def _checked(self, pair: LanguagePair, terms: Iterable[Term]) -> tuple[Term, ...]:
        if pair.source == pair.target:
            raise InvalidGlossary(f"a dictionary from {pair.source} to itself has no use")
        checked = validate(terms)
        if not checked:
            raise InvalidGlossary("a dictionary needs at least one entry")
        self._check_entries(checked)
        return checked

    def _check_entries(self, terms: Collection[Term]) -> None:
        characters = sum(len(term.source) + len(term.target) for term in terms)
        for number, limit, unit in (
            (len(terms), self._limits.entries, "entries"),
            (characters, self._limits.characters, "characters"),
        ):
            if number > limit:
                raise InvalidGlossary(
                    f"a dictionary has at most {limit} {unit}; this would have {number}"
                )

    def _check_number(self, number: int) -> None:
        if number > self._limits.dictionaries:
            raise InvalidGlossary(
                f"a glossary has at most {self._limits.dictionaries} dictionaries"
            )


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise InvalidGlossary("a glossary needs a name of printable characters")
    if len(name.encode("utf-8")) > LONGEST_NAME_BYTES:
        raise InvalidGlossary(f"a glossary's name has at most {LONGEST_NAME_BYTES} bytes in UTF-8")


def _glossary(connection: sqlite3.Connection, owner: str | None, identifier: str) -> Glossary:
    row = connection.execute(
        "SELECT name, created FROM glossaries WHERE id = ? AND owner IS ?", (identifier, owner)
    ).fetchone()
    if row is None:
        raise GlossaryNotFound(identifier)
    name, created = row
    dictionaries = connection.execute(
        "SELECT source, target, entry_count FROM dictionaries WHERE glossary = ? ORDER BY rowid",
        (identifier,),
    )
    return Glossary(
        identifier,
        name,
        datetime.fromisoformat(created),
        owner,
        tuple(Dictionary(LanguagePair(*pair), count) for *pair, count in dictionaries),
    )


def _terms(connection: sqlite3.Connection, identifier: str, pair: LanguagePair) -> tuple[Term, ...]:
    row = connection.execute(
        "SELECT entries FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
        (identifier, pair.source, pair.target),
    ).fetchone()
    return tuple(Term(*entry) for entry in json.loads(row[0])) if row else ()


def _put(
    connection: sqlite3.Connection, identifier: str, pair: LanguagePair, terms: tuple[Term, ...]
) -> None:
    entries = json.dumps([[term.source, term.target] for term in terms], ensure_ascii=False)
    connection.execute(
        "INSERT INTO dictionaries (glossary, source, target, entry_count, entries) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "entry_count = excluded.entry_count, entries = excluded.entries",
        (identifier, pair.source, pair.target, len(terms), entries),
    )
