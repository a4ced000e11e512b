"""Tests of ``dragoman state``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.cli import main
from service.state.database import Database
from service.state.keys import KeyStore
from tests.support.keys import add_key


async def names(place: SecretStr) -> list[str]:
    async with Database(place) as database:
        return [key.name for key in await KeyStore(database).all()]


def test_directory_is_upgraded_and_copied_to_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "upgrade", "--state", str(tmp_path / "old")]) == 0
    assert main(["keys", "add", "weblate", "--state", str(tmp_path / "old")]) == 0
    assert main(["state", "copy", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    assert "api_keys: 1\n" in capsys.readouterr().out
    assert main(["keys", "list", "--state", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("weblate: ")
    assert main(["state", "copy", str(tmp_path / "old"), str(tmp_path / "new")]) == 2
    assert main(["state", "copy", str(tmp_path / "odl"), str(tmp_path / "newer")]) == 2
    assert not (tmp_path / "odl").exists()


async def test_directory_is_copied_to_postgresql(
    tmp_path: Path, postgres_address: SecretStr, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_key(tmp_path, "weblate")
    address = postgres_address.get_secret_value()
    assert await asyncio.to_thread(main, ["state", "copy", str(tmp_path), address]) == 0
    assert await names(postgres_address) == ["weblate"]
