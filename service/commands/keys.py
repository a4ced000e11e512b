"""``dragoman keys``: adds, lists and removes API keys, also while a server runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from service.observability.logging import audit, configure
from service.settings import Settings
from service.state.database import Database
from service.state.keys import ApiKey, KeyStore
from service.state.usage import Usage, UsageLedger

_FROM_INPUT = "-"
_GUESSABLE = 16
"""Characters; a shorter chosen key prints a warning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="action")

    add = actions.add_parser("add", help="add a key and print it, this once")
    add.add_argument("name", metavar="NAME", help="who it is for")
    add.add_argument(
        "--key",
        metavar="VALUE",
        help="the key itself instead of a random one; - reads it from standard input",
    )
    for limit in ("--requests-per-minute", "--characters-per-month"):
        add.add_argument(
            limit, type=int, metavar="N", help="0 is unlimited; left out, what the settings say"
        )
    add.set_defaults(run=_add)

    listing = actions.add_parser("list", help="list the keys' names, limits and usage")
    listing.set_defaults(run=_list)

    remove = actions.add_parser("remove", help="make a key stop working")
    remove.add_argument("name", metavar="NAME", help="whose key")
    remove.set_defaults(run=_remove)

    for action in (add, listing, remove):
        action.add_argument("--state", metavar="PLACE", help="directory or address of the state")


def _add(options: argparse.Namespace) -> int:
    given = sys.stdin.readline().strip() if options.key == _FROM_INPUT else options.key

    async def run() -> str:
        async with _database(_settings(options)) as database:
            return await KeyStore(database).add(
                options.name,
                given,
                requests_per_minute=options.requests_per_minute,
                characters_per_month=options.characters_per_month,
            )

    key = asyncio.run(run())
    _audit("key added", options.name)
    print(key)
    if given is None:
        print("dragoman: keep this key; it is stored nowhere else", file=sys.stderr)
    elif len(key) < _GUESSABLE:
        print("dragoman: a key this short can be guessed", file=sys.stderr)
    return 0


def _list(options: argparse.Namespace) -> int:
    settings = _settings(options)

    async def run() -> list[str]:
        async with _database(settings) as database:
            usage = UsageLedger(database)
            keys = await KeyStore(database).all()
            return [_line(key, await usage.of(key.name), settings) for key in keys]

    lines = asyncio.run(run())
    for line in lines or [f"{_database(settings).name} has no keys; see `dragoman keys add`"]:
        print(line)
    return 0


def _remove(options: argparse.Namespace) -> int:
    async def run() -> None:
        async with _database(_settings(options)) as database:
            await KeyStore(database).remove(options.name)

    asyncio.run(run())
    _audit("key removed", options.name)
    return 0


def _audit(action: str, name: str) -> None:
    settings = Settings.from_environment()
    configure(settings.log_level, settings.log_format)
    audit(action, f"user {os.getuid()}", key=name)


def _settings(options: argparse.Namespace) -> Settings:
    return Settings.from_environment(state=options.state)


def _database(settings: Settings) -> Database:
    return Database.at(settings.state)


def _line(key: ApiKey, usage: Usage, settings: Settings) -> str:
    requests, quota = key.requests_per_minute, key.characters_per_month
    return (
        f"{key.name}: added {key.created:%Y-%m-%d}, "
        f"{_limit(settings.requests_per_minute if requests is None else requests)} requests a "
        f"minute, {usage.characters} of "
        f"{_limit(settings.characters_per_month if quota is None else quota)} characters and "
        f"{usage.documents} documents this month"
    )


def _limit(limit: int) -> str:
    return str(limit) if limit else "unlimited"
