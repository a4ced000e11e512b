from __future__ import annotations

import uuid
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import delete, event, select

from service.state.database import FILE_NAME, Database
from service.state.errors import (
    DictionaryNotFound,
    GlossaryNotFound,
    InvalidGlossary,
    TooManyGlossaries,
)
from service.state.glossaries import Dictionary, GlossaryLimits, GlossaryStore
from service.state.schema import DICTIONARIES
from service.text.types import LanguagePair, Term

DE_EN, EN_DE = LanguagePair("de", "en"), LanguagePair("en", "de")
DOG, CAT = Term("Hund", "dog"), Term("Katze", "cat")


@pytest.fixture
def store(database: Database) -> GlossaryStore:
    return GlossaryStore(
        database, GlossaryLimits(glossaries=3, dictionaries=2, entries=4, characters=100)
    )


async def test_stored_glossary_is_read_unchanged(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        made = await GlossaryStore(database).create("ann", "Tiere", {DE_EN: [DOG, CAT]})
    assert str(uuid.UUID(made.id)) == made.id
    assert made.created.tzinfo is UTC
    assert abs(datetime.now(UTC) - made.created).days == 0
    assert made.dictionaries == (Dictionary(DE_EN, 2),)
    async with Database(tmp_path / FILE_NAME) as database:
        store = GlossaryStore(database)
        assert await store.all("ann") == (made,)
        assert await store.get("ann", made.id.upper()) == made
        assert await store.terms("ann", made.id, DE_EN) == (DOG, CAT)


async def test_glossaries_are_listed_in_the_order_they_were_made_by_two_statements(
    database: Database, store: GlossaryStore
) -> None:
    made = [await store.create(None, name, {EN_DE: [DOG], DE_EN: [DOG, CAT]}) for name in "bac"]
    statements = list[str]()
    assert database._engine is not None
    event.listen(database._engine, "before_cursor_execute", lambda *its: statements.append(its[2]))
    assert list(await store.all(None)) == made
    assert sum("glossaries" in each for each in statements) == 2


@pytest.mark.parametrize("other", [None, "bob"])
async def test_other_owners_cannot_access_a_glossary(
    store: GlossaryStore, other: str | None
) -> None:
    made = await store.create("ann", "Tiere", {DE_EN: [DOG]})
    assert await store.all(other) == ()
    for attempt in (
        store.get(other, made.id),
        store.terms(other, made.id, DE_EN),
        store.rename(other, made.id, "mine"),
        store.replace(other, made.id, DE_EN, [CAT]),
        store.merge(other, made.id, DE_EN, [CAT]),
        store.remove(other, made.id, DE_EN),
        store.delete(other, made.id),
    ):
        with pytest.raises(GlossaryNotFound, match=made.id):
            await attempt
    for unknown in ("", "nonsense", "\ud800", str(uuid.UUID(int=1))):
        with pytest.raises(GlossaryNotFound):
            await store.get(other, unknown)
    assert await store.get("ann", made.id) == made
    assert await store.terms("ann", made.id, DE_EN) == (DOG,)


async def test_a_glossary_may_have_a_dictionary_for_each_pair(store: GlossaryStore) -> None:
    made = await store.create(None, "Tiere", {EN_DE: [Term("dog", "Hund")], DE_EN: [DOG, CAT]})
    assert made.dictionaries == (Dictionary(EN_DE, 1), Dictionary(DE_EN, 2))
    assert made.dictionary(EN_DE).entry_count == 1
    assert await store.terms(None, made.id, EN_DE) == (Term("dog", "Hund"),)
    await store.remove(None, made.id, EN_DE)
    left = await store.get(None, made.id)
    assert left.dictionaries == (Dictionary(DE_EN, 2),)
    with pytest.raises(DictionaryNotFound, match="has no entries from en to de"):
        await store.terms(None, made.id, EN_DE)
    with pytest.raises(DictionaryNotFound):
        await store.remove(None, made.id, EN_DE)


async def test_entries_are_replaced_or_merged(store: GlossaryStore) -> None:
    made = await store.create(None, "Tiere", {DE_EN: [DOG, CAT]})
    hound, bird = Term("Hund", "hound"), Term("Vogel", "bird")
    assert await store.merge(None, made.id, DE_EN, [bird, hound]) == Dictionary(DE_EN, 3)
    assert await store.terms(None, made.id, DE_EN) == (hound, CAT, bird)
    assert await store.replace(None, made.id, DE_EN, [bird]) == Dictionary(DE_EN, 1)
    assert await store.terms(None, made.id, DE_EN) == (bird,)
    assert await store.merge(None, made.id, EN_DE, [Term("dog", "Hund")]) == Dictionary(EN_DE, 1)


async def test_renamed_glossary_keeps_other_fields(store: GlossaryStore) -> None:
    made = await store.create(None, "Tiere", {DE_EN: [DOG]})
    renamed = await store.rename(None, made.id, "Haustiere")
    assert renamed.name == "Haustiere"
    assert (renamed.id, renamed.created, renamed.dictionaries) == (
        made.id,
        made.created,
        made.dictionaries,
    )


async def test_a_deleted_glossary_is_gone_with_its_entries(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        store = GlossaryStore(database)
        made = await store.create(None, "Tiere", {DE_EN: [DOG]})
        await store.delete(None, made.id)
        assert await store.all(None) == ()
        with pytest.raises(GlossaryNotFound):
            await store.terms(None, made.id, DE_EN)
        left = await database.read(lambda c: c.execute(select(DICTIONARIES)).fetchall())
        assert left == []


async def test_glossaries_dictionaries_and_entries_are_limited(store: GlossaryStore) -> None:
    entries = [Term(str(number), "x") for number in range(5)]
    with pytest.raises(InvalidGlossary, match="at most 4 entries; this would have 5"):
        await store.create(None, "Tiere", {DE_EN: entries})
    made = await store.create(None, "Tiere", {DE_EN: entries[:3], EN_DE: [DOG]})
    with pytest.raises(InvalidGlossary, match="at most 4 entries; this would have 5"):
        await store.merge(None, made.id, DE_EN, entries[3:])
    assert len(await store.terms(None, made.id, DE_EN)) == 3
    with pytest.raises(InvalidGlossary, match="at most 2 dictionaries"):
        await store.replace(None, made.id, LanguagePair("fr", "de"), [DOG])
    for _ in range(2):
        await store.create(None, "Tiere", {DE_EN: [DOG]})
    with pytest.raises(TooManyGlossaries, match="there are 3 glossaries already; delete one"):
        await store.create(None, "Tiere", {DE_EN: [DOG]})
    await store.create("ann", "Tiere", {DE_EN: [Term("a" * 50, "b" * 50)]})
    with pytest.raises(InvalidGlossary, match="at most 100 characters; this would have 102"):
        await store.create("ann", "Tiere", {DE_EN: [Term("a" * 51, "b" * 51)]})


async def test_glossaries_without_name_entries_or_two_languages_are_refused(
    store: GlossaryStore,
) -> None:
    with pytest.raises(InvalidGlossary, match="at least one entry"):
        await store.create(None, "Tiere", {DE_EN: []})
    with pytest.raises(InvalidGlossary, match="from de to itself"):
        await store.create(None, "Tiere", {LanguagePair("de", "de"): [DOG]})
    assert await store.all(None) == ()
    made = await store.create(None, "Tiere", {DE_EN: [DOG]})
    for name in ("", " ", "a\nb", "\ud800", "ü" * 513):
        with pytest.raises(InvalidGlossary, match="name"):
            await store.create(None, name, {DE_EN: [DOG]})
        with pytest.raises(InvalidGlossary, match="name"):
            await store.rename(None, made.id, name)


async def test_entries_are_read_and_parsed_again_only_after_a_change(database: Database) -> None:
    store, elsewhere = GlossaryStore(database), GlossaryStore(database)
    made = await store.create("ann", "Tiere", {DE_EN: [DOG]})
    first = await store.terms("ann", made.id, DE_EN)
    assert await store.terms("ann", made.id, DE_EN) is first
    await elsewhere.replace("ann", made.id, DE_EN, [CAT])
    assert await store.terms("ann", made.id, DE_EN) == (CAT,)


async def test_dictionary_removed_while_it_is_read_is_not_found(
    postgres_address: SecretStr,
) -> None:
    async with Database(postgres_address, upgrade=True) as database:
        store = GlossaryStore(database)
        made = await store.create(None, "Tiere", {DE_EN: [DOG]})

        class Removing(OrderedDict[str, Any]):
            def __contains__(self, _: object) -> bool:
                database.write_here(lambda c: c.execute(delete(DICTIONARIES)))
                return False

        store._parsed._terms = Removing()
        with pytest.raises(DictionaryNotFound):
            await store.terms(None, made.id, DE_EN)


async def test_parsed_entries_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.glossaries._MOST_CHARACTERS", 10)
    store = GlossaryStore(database)
    made = [await store.create("ann", "Tiere", {DE_EN: [term]}) for term in (DOG, CAT)]
    dog, cat = [await store.terms("ann", each.id, DE_EN) for each in made]
    assert await store.terms("ann", made[1].id, DE_EN) is cat
    assert await store.terms("ann", made[0].id, DE_EN) is not dog
