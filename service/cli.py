"""The ``dragoman`` command line: parses arguments, runs a subcommand, reports errors.

Exit codes: 0 done, 2 failed with one sentence on standard error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import service
from models.export.errors import ParityError
from models.fetching.errors import FetchFailed
from models.importing.refusals import ImportRefused
from service.bulk.journal import UnusableJournal
from service.bulk.output import OutputTaken
from service.bulk.reading import BadLine
from service.bulk.rows import UnknownColumn
from service.bulk.source import BadSource
from service.bulk.translating import BlockFailed
from service.commands import bench, bundles, keys, models, serve, translate
from service.commands.command import DONE, FAILED, INTERRUPTED, CommandFailed
from service.observability.tracing import TracingUnavailable
from service.runtime.sessions import DeviceUnavailable
from service.settings import InvalidSetting
from service.state.errors import KeyRefused, StateError, StateUnavailable
from service.text.errors import TranslationError

_REPORTED_ERRORS = (
    BadLine,
    BadSource,
    BlockFailed,
    CommandFailed,
    DeviceUnavailable,
    FetchFailed,
    ImportRefused,
    InvalidSetting,
    KeyRefused,
    OutputTaken,
    ParityError,
    StateError,
    StateUnavailable,
    TracingUnavailable,
    TranslationError,
    UnknownColumn,
    UnusableJournal,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python reports an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except _REPORTED_ERRORS as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"dragoman: {where}{error.strerror or error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dragoman",
        description="Serve translation models over HTTP, or translate files in this process.",
        epilog="Everything else is set by DRAGOMAN_* variables; see docs/operations.md.",
    )
    parser.add_argument("--version", action="version", version=f"dragoman {service.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (serve, translate, bundles, models, keys, bench):
        command.add_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
