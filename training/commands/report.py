"""``report`` command: translates test sets with bundles and writes a quality report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from training.commands import Commands
from training.commands.options import add_data, add_threads, positive

if TYPE_CHECKING:
    from training.evaluation.document import Section


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "report",
        help="let bundles translate test sets, and write a page about it",
        description="Translate test sets with bundles, as they are served; score, compare and "
        "diagnose the translations. The first bundle is what the others are compared with. "
        "Translations are kept beside the report, by version of the bundle.",
    )
    parser.add_argument(
        "systems", nargs="+", metavar="BUNDLE", help="a name in --bundles, or a path"
    )
    parser.add_argument(
        "--bundles",
        type=Path,
        default=Path("bundles"),
        help="directory of bundles (default: bundles)",
    )
    parser.add_argument(
        "--test",
        action="append",
        required=True,
        metavar="NAME",
        help="a test set in the data directory, such as multi30k/test_2016_flickr; repeatable",
    )
    parser.add_argument("--from", dest="source", metavar="CODE", help="else all that bundles have")
    parser.add_argument("--to", dest="target", metavar="CODE", help="else all that bundles have")
    add_data(parser)
    parser.add_argument("--beam-size", type=positive, metavar="N", help="else the bundle's")
    add_threads(parser)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), help="(default: report.html)"
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    written(options)


def written(options: argparse.Namespace) -> list[Section]:
    """The sections of the report, which is written and summarised."""
    from models.bundle.bundle import Bundle
    from training.data.translate import find_translator
    from training.evaluation.bundles import (
        Translating,
        directions_among,
        facts_of,
        labels,
        sections,
    )
    from training.evaluation.report import publish

    page: Path = options.output
    bundles = [Bundle.open(find_translator(name, options.bundles)) for name in options.systems]
    directions = directions_among(bundles, options.source, options.target)
    kept = page.with_suffix(".translations")
    translating = Translating(options.data, kept, options.beam_size, options.threads)
    systems = [facts_of(*each) for each in zip(labels(bundles), bundles, strict=True)]
    made = sections(bundles, options.test, directions, translating)
    publish("bundles", systems, made, page)
    return made
