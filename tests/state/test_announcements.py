from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from service.state.announcements import Announcements
from service.state.database import Database
from service.state.schema import REVISIONS
from tests.support.waiting import cancelled, until


async def test_other_processes_notice_an_event_once_and_the_announcer_does_not(
    place: Path | SecretStr, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.announcements._POLL_SECONDS", 0.001)
    await Announcements(database, "reloads").announce()
    async with Database(place) as elsewhere:
        one, other = Announcements(database, "reloads"), Announcements(elsewhere, "reloads")
        noticed: list[str] = []
        watching = [
            asyncio.create_task(one.watch(lambda: noticed.append("one"))),
            asyncio.create_task(other.watch(lambda: noticed.append("other"))),
        ]
        await asyncio.sleep(0.05)
        assert noticed == []
        await one.announce()
        await until(lambda: noticed)
        await asyncio.sleep(0.05)
        assert noticed == ["other"]
        # A copy of the database was restored.
        await database.write(lambda c: c.execute(update(REVISIONS).values(number=1)))
        await until(lambda: len(noticed) == 3)
        await one.announce()
        await until(lambda: len(noticed) == 4)
        await cancelled(*watching)
    assert noticed[3] == "other"
