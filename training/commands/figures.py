"""``figures`` command: draws figures of the model, the training and the curves of runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from training.commands import Commands
from training.commands.options import add_data, positive
from training.refusal import Refusal

if TYPE_CHECKING:
    from training.figures.material import Material

RUN, TOY = Path("runs/multi30k-de-en"), Path("runs/reverse")


class UnknownFigure(Refusal):
    """No figure has that name."""


class TooManyRuns(Refusal):
    """More runs than distinguishable colours."""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "figures",
        help="draw masks, schedules, attention, learning curves and more",
        description="Draw figures; without names, all for which there is something to draw from.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="a figure; --list lists them")
    parser.add_argument("--list", action="store_true", help="say which figures there are")
    parser.add_argument(
        "--run",
        dest="drawn",
        metavar="DIRECTORY",
        type=Path,
        action="append",
        help=f"draw this run; several are compared where that makes sense (default: {RUN})",
    )
    parser.add_argument(
        "--toy", metavar="DIRECTORY", type=Path, default=TOY, help=f"of `reversal` (default: {TOY})"
    )
    parser.add_argument("--sentence", metavar="TEXT", help="whose attention is drawn")
    parser.add_argument(
        "--into", metavar="LANGUAGE", help="translate it into this (default: the recipe's target)"
    )
    parser.add_argument(
        "--layer",
        dest="layers",
        metavar="NUMBER",
        type=positive,
        action="append",
        help="draw the attention of this layer, from 1, and not of all",
    )
    add_data(parser)
    parser.add_argument(
        "--format", choices=("png", "svg"), default="png", help="of the files (default: png)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIRECTORY",
        type=Path,
        default=Path("build/figures"),
        help="where to write (default: build/figures)",
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    from models.bundle.manifest import InvalidBundle
    from training.figures.registry import FIGURES
    from training.figures.style import write

    if options.list:
        for entry in FIGURES.values():
            print(f"{entry.name:20}{entry.shows}")
        return
    unknown = [name for name in options.names if name not in FIGURES]
    if unknown:
        raise UnknownFigure(
            f"no figure is called {', '.join(map(repr, unknown))}; there are {', '.join(FIGURES)}"
        )
    material = _material(options)
    for name in options.names or FIGURES:
        entry = FIGURES[name]
        try:
            figure = entry.draw(material)
        except (Refusal, InvalidBundle, FileNotFoundError) as error:
            if options.names:
                raise
            print(f"left out {name}: {error}")
            continue
        path = options.output / f"{name}.{options.format}"
        write(figure, path)
        print(f"wrote {path}: {entry.shows}")


def _material(options: argparse.Namespace) -> Material:
    from training.figures.material import Material
    from training.figures.style import COLOURS
    from training.run_directory import RunDirectory

    runs = tuple(dict.fromkeys(options.drawn or (RUN,)))
    if len(runs) > len(COLOURS):
        raise TooManyRuns(f"{len(runs)} runs share colours; compare {len(COLOURS)} at most")
    return Material(
        runs=tuple(map(RunDirectory, runs)),
        toy=RunDirectory(options.toy),
        data=options.data,
        sentence=options.sentence,
        into=options.into,
        layers=tuple(options.layers) if options.layers else None,
    )
