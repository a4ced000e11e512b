"""Command line of training, ``python -m training COMMAND``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from models.export.errors import ParityError
from training.commands import (
    Commands,
    average,
    compare,
    distill,
    evaluate,
    export,
    figures,
    fine_tune,
    new,
    prepare,
    recipes,
    report,
    run,
    shortlist,
    show,
    train,
    translate,
    tune,
)
from training.commands.options import add_recipe_command
from training.disk import writing_to
from training.refusal import Refusal

COMMANDS = (
    recipes,
    show,
    new,
    run,
    translate,
    prepare,
    train,
    average,
    evaluate,
    shortlist,
    export,
    distill,
    fine_tune,
    tune,
    report,
    compare,
    figures,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # Imported after ``--help`` has been answered.
    from models.bundle.manifest import InvalidBundle

    if getattr(options, "threads", 0):
        import torch

        torch.set_num_threads(options.threads)
    try:
        # Hops that know the size of their output raise ``CannotWrite`` themselves.
        with writing_to(lambda: _places(options)):
            options.perform(options)
            sys.stdout.flush()
    except (Refusal, ParityError, InvalidBundle, FileNotFoundError) as error:
        missing = error.filename if isinstance(error, FileNotFoundError) else None
        message = f"{missing} does not exist" if missing else str(error)
        print(f"training: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "training: interrupted; the same command goes on from the last checkpoint",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        # The reader of the output, such as head, has closed the pipe. Silences the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _places(options: argparse.Namespace) -> dict[str, Path]:
    """Directories that a command may write to, by the option or variable that sets them."""
    found = {f"--{name}": getattr(options, name, None) for name in ("runs", "bundles", "output")}
    places = {option: path for option, path in found.items() if isinstance(path, Path)}
    # Export writes graphs there before it verifies them.
    return {**places, "the variable TMPDIR": Path(tempfile.gettempdir())}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"training: {message}; `{self.prog} --help` lists the options\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m training",
        description="Train a Transformer and export it as a bundle.",
    )
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        if hasattr(command, "HELP"):
            add_recipe_command(commands, command)
        else:
            command.add_to(commands)
    return parser
