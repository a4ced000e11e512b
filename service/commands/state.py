"""``dragoman state``: upgrades the stored state, and copies it from one place to another."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from service.commands.command import CommandFailed
from service.settings import Settings
from service.state.copying import copy
from service.state.database import FILE_NAME, Database


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="action")

    upgrade = actions.add_parser("upgrade", help="create or upgrade the tables")
    upgrade.add_argument("--state", metavar="PLACE", help="directory or address of the state")
    upgrade.set_defaults(run=_upgrade)

    copying = actions.add_parser("copy", help="copy a state into an empty one")
    copying.add_argument("source", metavar="FROM", help="directory, or postgresql:// address")
    copying.add_argument("target", metavar="TO", help="the same; its tables have to be empty")
    copying.set_defaults(run=_copy)


def _upgrade(options: argparse.Namespace) -> int:
    async def run() -> None:
        settings = Settings.from_environment(state=options.state)
        async with Database.at(settings.state, upgrade=True) as database:
            print(f"dragoman: {database.name} is up to date", file=sys.stderr)

    asyncio.run(run())
    return 0


def _copy(options: argparse.Namespace) -> int:
    source, target = (
        Settings.from_environment(state=place).state for place in (options.source, options.target)
    )
    if isinstance(source, Path) and not (source / FILE_NAME).exists():
        raise CommandFailed(f"there is no state in {source}: it has no {FILE_NAME}")

    async def run() -> None:
        async with Database.at(source) as old, Database.at(target, upgrade=True) as new:
            for table, rows in (await copy(old, new)).items():
                print(f"{table}: {rows}")

    asyncio.run(run())
    return 0
