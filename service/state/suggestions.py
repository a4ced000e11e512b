"""Store of users' suggested translations, as data for training. Independent of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, select

from service.state.database import Database
from service.state.errors import InvalidSuggestion, SuggestionsFull
from service.state.schema import SUGGESTIONS
from service.text.types import LanguagePair


@dataclass(frozen=True, slots=True)
class SuggestionLimits:
    characters: int = 10_000
    """Characters of a text, or of its suggested translation."""
    suggestions: int = 100_000


class SuggestionStore:
    def __init__(
        self,
        database: Database,
        limits: SuggestionLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._limits = limits or SuggestionLimits()
        self._now = now

    async def add(self, owner: str | None, pair: LanguagePair, text: str, suggestion: str) -> None:
        """Store a suggested translation of ``text``.

        Raises ``InvalidSuggestion``, or ``SuggestionsFull`` once the limit is reached.
        """
        for name, value in (("text", text), ("suggestion", suggestion)):
            self._check(name, value)
        row = {
            "received": self._now().isoformat(),
            "owner": owner,
            "source": pair.source,
            "target": pair.target,
            "text": text,
            "suggestion": suggestion,
        }
        limit = self._limits.suggestions

        def add(connection: Connection) -> None:
            number = connection.execute(select(func.count()).select_from(SUGGESTIONS)).scalar_one()
            if number >= limit:
                raise SuggestionsFull
            connection.execute(insert(SUGGESTIONS).values(row))

        await self._database.write(add, "suggestions")

    def _check(self, name: str, value: str) -> None:
        if not value.strip():
            raise InvalidSuggestion(f"the {name} is empty")
        if len(value) > self._limits.characters:
            raise InvalidSuggestion(
                f"the {name} has {len(value)} characters; at most {self._limits.characters} are "
                "kept"
            )
        if "\0" in value:
            # PostgreSQL stores no text with this character.
            raise InvalidSuggestion(f"the {name} has the character U+0000; leave it out")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidSuggestion(f"the {name} is not valid Unicode") from error
