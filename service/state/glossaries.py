"""Store of glossaries and their dictionaries, by owner. Independent of any wire format.

A glossary holds one dictionary for each of its language pairs. Owners see only their own
glossaries. Callers without a key are one owner, ``None``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from service.state.database import Database
from service.state.entries import validate
from service.state.errors import (
    DictionaryNotFound,
    GlossaryNotFound,
    InvalidGlossary,
    TooManyGlossaries,
)
from service.state.owned import canonical, count, owned_by
from service.state.schema import DICTIONARIES, GLOSSARIES, upsert
from service.text.types import LanguagePair, Term

LONGEST_NAME_BYTES = 1024
_MOST_CHARACTERS = 16_000_000
"""Characters of the entries kept as they were parsed, about 100 MB with their objects."""
_LOCK = "glossaries"


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
        self._parsed = _ParsedTerms()

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

        def put(connection: Connection) -> Glossary:
            if count(connection, GLOSSARIES, owner) >= limit:
                raise TooManyGlossaries(limit)
            connection.execute(insert(GLOSSARIES).values((identifier, owner, name, created)))
            for pair, terms in checked.items():
                _put(connection, identifier, pair, terms)
            return _glossary(connection, owner, identifier)

        return await self._database.write(put, _LOCK)

    async def all(self, owner: str | None) -> tuple[Glossary, ...]:
        """The glossaries of an owner, oldest first."""
        return await self._database.read(lambda connection: _glossaries(connection, owner))

    async def get(self, owner: str | None, identifier: str) -> Glossary:
        """One glossary; raises ``GlossaryNotFound``, as do all methods below."""
        known = canonical(identifier, GlossaryNotFound)
        return await self._database.read(lambda connection: _glossary(connection, owner, known))

    async def terms(
        self, owner: str | None, identifier: str, pair: LanguagePair
    ) -> tuple[Term, ...]:
        """The entries of one dictionary, in their order; raises ``DictionaryNotFound``."""
        known = canonical(identifier, GlossaryNotFound)

        def read(connection: Connection) -> tuple[Term, ...]:
            _glossary(connection, owner, known)
            terms = self._parsed.terms(connection, known, pair)
            if not terms:
                raise DictionaryNotFound(known, pair.source, pair.target)
            return terms

        return await self._database.read(read)

    async def rename(self, owner: str | None, identifier: str, name: str) -> Glossary:
        """Raises ``InvalidGlossary``."""
        known = canonical(identifier, GlossaryNotFound)
        _check_name(name)

        def rename(connection: Connection) -> Glossary:
            _glossary(connection, owner, known)
            connection.execute(update(GLOSSARIES).where(GLOSSARIES.c.id == known).values(name=name))
            return _glossary(connection, owner, known)

        return await self._database.write(rename, _LOCK)

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

        def remove(connection: Connection) -> None:
            _glossary(connection, owner, known).dictionary(pair)
            connection.execute(delete(DICTIONARIES).where(_is_dictionary(known, pair)))

        await self._database.write(remove, _LOCK)

    async def delete(self, owner: str | None, identifier: str) -> None:
        known = canonical(identifier, GlossaryNotFound)

        def remove(connection: Connection) -> None:
            _glossary(connection, owner, known)
            connection.execute(delete(GLOSSARIES).where(GLOSSARIES.c.id == known))

        await self._database.write(remove, _LOCK)

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

        def put(connection: Connection) -> Dictionary:
            glossary = _glossary(connection, owner, known)
            pairs = {dictionary.pair for dictionary in glossary.dictionaries} | {pair}
            self._check_number(len(pairs))
            present = self._parsed.terms(connection, known, pair) if keep else ()
            merged = {term.source: term for term in present}
            merged |= {term.source: term for term in checked}
            self._check_entries(merged.values())
            _put(connection, known, pair, tuple(merged.values()))
            return Dictionary(pair, len(merged))

        return await self._database.write(put, _LOCK)

    def _checked(self, pair: LanguagePair, terms: Iterable[Term]) -> tuple[Term, ...]:
        if pair.source == pair.target:
            raise InvalidGlossary(f"a dictionary from {pair.source} to itself has no use")
        checked = validate(terms)
        if not checked:
            raise InvalidGlossary("a dictionary needs at least one entry")
        self._check_entries(checked)
        return checked

    def _check_entries(self, terms: Collection[Term]) -> None:
        for number, limit, unit in (
            (len(terms), self._limits.entries, "entries"),
            (_characters(terms), self._limits.characters, "characters"),
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


class _ParsedTerms:
    """Entries of recently used dictionaries, by the digest of their JSON. Used in any thread."""

    def __init__(self) -> None:
        self._terms: OrderedDict[str, tuple[Term, ...]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def terms(
        self, connection: Connection, identifier: str, pair: LanguagePair
    ) -> tuple[Term, ...]:
        """The present entries of a dictionary, none if it is absent; parsed once for each
        digest."""
        is_it = _is_dictionary(identifier, pair)
        digest = connection.execute(select(DICTIONARIES.c.digest).where(is_it)).scalar()
        if digest is None:
            return ()
        with self._lock:
            if digest in self._terms:
                self._terms.move_to_end(digest)
                return self._terms[digest]
        row = connection.execute(
            select(DICTIONARIES.c.digest, DICTIONARIES.c.entries).where(is_it)
        ).first()
        if row is None:
            return ()
        digest, entries = row
        terms = tuple(Term(*entry) for entry in json.loads(entries))
        with self._lock:
            self._keep(digest, terms)
        return terms

    def _keep(self, digest: str, terms: tuple[Term, ...]) -> None:
        if digest not in self._terms:
            self._terms[digest] = terms
            self._characters += _characters(terms)
        while self._characters > _MOST_CHARACTERS:
            _, evicted = self._terms.popitem(last=False)
            self._characters -= _characters(evicted)


def _characters(terms: Iterable[Term]) -> int:
    return sum(len(term.source) + len(term.target) for term in terms)


def _is_dictionary(identifier: str, pair: LanguagePair) -> ColumnElement[bool]:
    columns = DICTIONARIES.c
    return and_(
        columns.glossary == identifier,
        columns.source == pair.source,
        columns.target == pair.target,
    )


def _glossary(connection: Connection, owner: str | None, identifier: str) -> Glossary:
    for glossary in _glossaries(connection, owner, GLOSSARIES.c.id == identifier):
        return glossary
    raise GlossaryNotFound(identifier)


def _glossaries(
    connection: Connection, owner: str | None, *which: ColumnElement[bool]
) -> tuple[Glossary, ...]:
    """Glossaries of an owner, oldest first."""
    wanted = and_(owned_by(GLOSSARIES, owner), *which)
    columns = DICTIONARIES.c
    rows = connection.execute(
        select(GLOSSARIES).where(wanted).order_by(GLOSSARIES.c.created, GLOSSARIES.c.id)
    ).all()
    dictionaries = defaultdict[str, list[Dictionary]](list)
    for identifier, *pair, entry_count in connection.execute(
        select(columns.glossary, columns.source, columns.target, columns.entry_count)
        .join(GLOSSARIES)
        .where(wanted)
        .order_by(columns.position, columns.source, columns.target)
    ):
        dictionaries[identifier].append(Dictionary(LanguagePair(*pair), entry_count))
    return tuple(
        Glossary(
            row.id,
            row.name,
            datetime.fromisoformat(row.created),
            owner,
            tuple(dictionaries[row.id]),
        )
        for row in rows
    )


def _put(
    connection: Connection, identifier: str, pair: LanguagePair, terms: tuple[Term, ...]
) -> None:
    entries = json.dumps([[term.source, term.target] for term in terms], ensure_ascii=False)
    columns = DICTIONARIES.c
    last = connection.execute(
        select(func.max(columns.position)).where(columns.glossary == identifier)
    ).scalar()
    row = {
        "glossary": identifier,
        "source": pair.source,
        "target": pair.target,
        "position": (last or 0) + 1,
        "entry_count": len(terms),
        "digest": hashlib.sha256(entries.encode()).hexdigest(),
        "entries": entries,
    }
    put = upsert(connection, DICTIONARIES)
    present = [columns.glossary, columns.source, columns.target]
    changed = {name: put.excluded[name] for name in ("entry_count", "digest", "entries")}
    connection.execute(put.on_conflict_do_update(index_elements=present, set_=changed), row)
