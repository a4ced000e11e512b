"""``dragoman keys``: adds, lists, changes and removes API keys, also while a server runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from service.observability.logging import audit, configure
from service.settings import Settings
from service.state.database import Database
from service.state.keys import ApiKey, KeyStore, Limits
from service.state.usage import Usage, UsageLedger

T = TypeVar("T")

_FROM_INPUT = "-"
_DEFAULT = "default"
_NO_LIMITS = Limits()
_GUESSABLE = 16
"""Characters; a shorter chosen key prints a warning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="action")

    add = actions.add_parser("add", help="add a key and print it, this once")
    add.add_argument("name", metavar="NAME", help="who it is for")
    _add_limits(add)
    add.set_defaults(run=_add)

    rotate = actions.add_parser(
        "rotate", help="add another key of a name and print it; the older ones expire"
    )
    rotate.add_argument("name", metavar="NAME", help="whose key")
    rotate.add_argument(
        "--old-expire",
        type=_time,
        metavar="TIME",
        help="when the older keys stop working, such as 2027-01-31 (UTC); left out, at once",
    )
    rotate.set_defaults(run=_rotate)

    for action in (add, rotate):
        action.add_argument(
            "--key",
            metavar="VALUE",
            help="the key itself instead of a random one; - reads it from standard input",
        )
        action.add_argument(
            "--expires", type=_time, metavar="TIME", help="when it stops working; left out, never"
        )

    limit = actions.add_parser(
        "limit", help="change the limits of a key; what is left out stays as it is"
    )
    limit.add_argument("name", metavar="NAME", help="whose key")
    _add_limits(limit)
    limit.set_defaults(run=_limit)

    listing = actions.add_parser("list", help="list the keys' names, limits and usage")
    listing.set_defaults(run=_list)

    remove = actions.add_parser("remove", help="make all keys of a name stop working")
    remove.add_argument("name", metavar="NAME", help="whose key")
    remove.set_defaults(run=_remove)

    for action in (add, rotate, limit, listing, remove):
        action.add_argument("--state", metavar="PLACE", help="directory or address of the state")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for limit in ("--requests-per-minute", "--characters-per-month"):
        parser.add_argument(
            limit, type=_number, metavar="N", help="0 is unlimited; default, what the settings say"
        )
    parser.add_argument(
        "--bulk",
        action=argparse.BooleanOptionalAction,
        help="its requests wait behind those of other keys",
    )
    parser.add_argument(
        "--models",
        type=_names,
        metavar="NAMES",
        help="the only models that it may use, separated by commas; empty, all",
    )
    parser.add_argument(
        "--languages",
        type=_names,
        metavar="CODES",
        help="the only languages that it may use, separated by commas: pairs such as de-en, and "
        "codes, of which it may use all pairs; empty, all",
    )


def _number(text: str) -> int | str:
    try:
        return text if text == _DEFAULT else int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {_DEFAULT}") from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _time(text: str) -> datetime:
    """An ISO 8601 date or time, in UTC unless it says otherwise."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        problem = f"{text!r} is no date or time such as 2027-01-31 or 2027-01-31T18:00"
        raise argparse.ArgumentTypeError(problem) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _limits_of(options: argparse.Namespace, present: Limits = _NO_LIMITS) -> Limits:
    """``present`` limits with those of the options instead."""
    given = {each.name: getattr(options, each.name) for each in fields(Limits)}
    changed: dict[str, Any] = {
        name: None if value == _DEFAULT else value
        for name, value in given.items()
        if value is not None
    }
    return replace(present, **changed)


def _add(options: argparse.Namespace) -> int:
    return _new_key(
        options,
        "key added",
        lambda keys, given: keys.add(options.name, given, _limits_of(options), options.expires),
    )


def _rotate(options: argparse.Namespace) -> int:
    return _new_key(
        options,
        "key rotated",
        lambda keys, given: keys.rotate(
            options.name, given, old_expire=options.old_expire, expires=options.expires
        ),
    )


def _new_key(
    options: argparse.Namespace,
    action: str,
    make: Callable[[KeyStore, str | None], Awaitable[str]],
) -> int:
    given = sys.stdin.readline().strip() if options.key == _FROM_INPUT else options.key
    key = _in_store(options, lambda keys: make(keys, given))
    _audit(action, options.name)
    print(key)
    if given is None:
        print("dragoman: keep this key; it is stored nowhere else", file=sys.stderr)
    elif len(key) < _GUESSABLE:
        print("dragoman: a key this short can be guessed", file=sys.stderr)
    return 0


def _limit(options: argparse.Namespace) -> int:
    _in_store(options, lambda keys: keys.limit(options.name, partial(_limits_of, options)))
    _audit("key limited", options.name)
    return 0


def _remove(options: argparse.Namespace) -> int:
    _in_store(options, lambda keys: keys.remove(options.name))
    _audit("key removed", options.name)
    return 0


def _in_store(options: argparse.Namespace, work: Callable[[KeyStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _database(_settings(options)) as database:
            return await work(KeyStore(database))

    return asyncio.run(run())


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


def _audit(action: str, name: str) -> None:
    settings = Settings.from_environment()
    configure(settings.log_level, settings.log_format)
    audit(action, f"user {os.getuid()}", key=name)


def _settings(options: argparse.Namespace) -> Settings:
    return Settings.from_environment(state=options.state)


def _database(settings: Settings) -> Database:
    return Database.at(settings.state)


def _line(key: ApiKey, usage: Usage, settings: Settings) -> str:
    requests, quota = key.limits.requests_per_minute, key.limits.characters_per_month
    now = datetime.now(UTC)
    ends = [each.expires for each in key.secrets if each.is_valid(now)]
    until = [f"until {end:%Y-%m-%d %H:%M}" if end else "for ever" for end in ends]
    valid = "" if ends == [None] else f"valid {' and '.join(until) or 'no longer'}, "
    return (
        f"{key.name}: added {key.created:%Y-%m-%d}, {valid}"
        f"{_shown(settings.requests_per_minute if requests is None else requests)} requests a "
        f"minute{' behind others' if key.limits.bulk else ''}, {usage.characters} of "
        f"{_shown(settings.characters_per_month if quota is None else quota)} characters and "
        f"{usage.documents} documents this month"
        f"{_only('models', key.limits.models)}{_only('languages', key.limits.languages)}"
    )


def _only(what: str, names: tuple[str, ...]) -> str:
    return f", {what} {' '.join(names)} only" if names else ""


def _shown(limit: int) -> str:
    return str(limit) if limit else "unlimited"
