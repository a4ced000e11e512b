from __future__ import annotations

import pytest
from sqlalchemy import select

from service.state.database import Database
from service.state.errors import InvalidSuggestion, SuggestionsFull
from service.state.schema import SUGGESTIONS
from service.state.suggestions import SuggestionLimits, SuggestionStore
from service.text.types import LanguagePair
from tests.state.clocks import Clock

DE_EN = LanguagePair("de", "en")


async def test_suggestion_is_stored_with_owner_and_time(database: Database) -> None:
    store = SuggestionStore(database, now=Clock().now)
    await store.add("ann", DE_EN, "Guten Tag", "Good day")
    await store.add(None, DE_EN, "Hallo\n", "Hello\n")
    rows = await database.read(lambda c: c.execute(select(SUGGESTIONS)).fetchall())
    received = "2026-11-15T12:00:00+00:00"
    assert rows == [
        (1, received, "ann", "de", "en", "Guten Tag", "Good day"),
        (2, received, None, "de", "en", "Hallo\n", "Hello\n"),
    ]


async def test_invalid_suggestions_are_refused(database: Database) -> None:
    store = SuggestionStore(database, SuggestionLimits(characters=10))
    for text, suggestion, sentence in (
        ("", "x", "the text is empty"),
        ("x", " \n", "the suggestion is empty"),
        ("x" * 11, "x", "the text has 11 characters; at most 10 are kept"),
        ("x", "x\0", r"the suggestion has the character U\+0000; leave it out"),
        ("x", "x\ud800", "the suggestion is not valid Unicode"),
    ):
        with pytest.raises(InvalidSuggestion, match=f"^{sentence}$"):
            await store.add(None, DE_EN, text, suggestion)


async def test_suggestions_above_limit_are_refused(database: Database) -> None:
    store = SuggestionStore(database, SuggestionLimits(suggestions=2))
    for _ in range(2):
        await store.add(None, DE_EN, "a", "b")
    with pytest.raises(SuggestionsFull):
        await store.add(None, DE_EN, "a", "b")
