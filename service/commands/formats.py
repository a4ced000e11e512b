"""Command-line options for the file format: plain lines, TSV or JSON lines."""

from __future__ import annotations

import argparse
from typing import Any

from service.bulk.rows import Columns, Format, FormatName, Lines, Objects, guessed
from service.commands.command import CommandFailed
from service.commands.inputs import Item

_INTO = "translation"
_FIELD = "text"


def add_format(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "format",
        "By the suffix (.tsv, .jsonl, .ndjson, or a document's) or by these options; else plain "
        "lines.",
    )
    group.add_argument("--format", choices=("lines", "tsv", "jsonl", "document"))
    group.add_argument(
        "--column", metavar="N", help="of TSV, a number from 1, or a name in its header"
    )
    group.add_argument("--header", action="store_true", help="the first line of TSV has names")
    group.add_argument("--field", metavar="NAME", help=f"of JSON lines; else {_FIELD}")
    group.add_argument(
        "--into", metavar="NAME", help=f"the column or field of the translation; else {_INTO}"
    )
    group.add_argument(
        "--replace", action="store_true", help="put the translation in its source's place"
    )


def described(options: argparse.Namespace, item: Item) -> dict[str, Any]:
    """The format and its options by name, as recorded in the journal."""
    names = ("column", "header", "field", "into", "replace")
    return {"format": _name(options, item)} | {name: getattr(options, name) for name in names}


def format_of(options: argparse.Namespace, item: Item) -> Format:
    """The format that options and names select; raises ``CommandFailed`` if they conflict."""
    name = _name(options, item)
    unfit = {
        "lines": ("column", "header", "field", "into", "replace"),
        "tsv": ("field",),
        "jsonl": ("column", "header"),
    }[name]
    for option in unfit:
        if getattr(options, option):
            raise CommandFailed(f"--{option} says nothing about {name}; see --format")
    if options.into is not None and options.replace:
        raise CommandFailed("--into and --replace exclude one another")
    if name == "tsv":
        return Columns(
            _column(options.column or "1"),
            header=options.header,
            into=options.into or _INTO,
            replace=options.replace,
        )
    if name == "jsonl":
        field = options.field or _FIELD
        return Objects(field, field if options.replace else options.into or _INTO)
    return Lines()


def _name(options: argparse.Namespace, item: Item) -> FormatName:
    if options.format is not None:
        named: FormatName = options.format
        return named
    if options.column is not None or options.header:
        return "tsv"
    if options.field is not None:
        return "jsonl"
    return guessed(item.source, item.target)


def _column(given: str) -> int | str:
    if not given.isdecimal():
        return given
    if int(given) < 1:
        raise CommandFailed(f"--column is {given}; columns are counted from 1")
    return int(given)
