"""The ``dragoman`` command line: parses arguments, runs a subcommand, reports errors.

Exit codes: 0 done, 1 done except for files that are named, 2 failed with one sentence on standard
error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper

import service
from service.commands.command import DONE, FAILED, INTERRUPTED, CommandFailed, message_of
from service.commands.terminal import say

_COMMANDS = {
    "translate": "translate a phrase, lines or documents",
    "serve": "answer HTTP requests",
    "models": "list, find, add, verify and remove models",
    "keys": "add, list and remove API keys",
    "state": "upgrade or copy keys, usage, glossaries, documents",
    "bench": "measure how fast bundles are on this machine",
    "completion": "print what makes a shell complete commands and options",
}
"""Subcommands and their help. Each is a module of ``service.commands``."""

_EXAMPLES = """\
examples:
  dragoman translate "Guten Tag" --to en
  dragoman translate angebot.docx -o offer.docx --to en
  dragoman models add fr-en
  dragoman serve --port 8001

Everything else is set by DRAGOMAN_* variables; see docs/operations.md.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stderr is None:
        # Its descriptor, 2, would be that of the next file, and messages would go elsewhere.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # Translations have letters that the encoding of a locale may lack.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        # The modules of some commands take seconds to import.
        options = parser(given[:1]).parse_args(given)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python reports an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (CommandFailed, OSError) as error:
        say(message_of(error), problem=True)
        return FAILED
    except Exception as error:
        from service.commands.errors import REPORTED

        if not isinstance(error, REPORTED):
            raise
        say(str(error), problem=True)
        return FAILED


def parser(complete: Sequence[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """The parser of all commands, with the arguments of those in ``complete``."""
    root = argparse.ArgumentParser(
        prog="dragoman",
        description="Serve translation models over HTTP, or translate in this process.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"dragoman {service.__version__}")
    commands = root.add_subparsers(required=True, metavar="command")
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in complete:
            import_module(f"service.commands.{name}").add_arguments(command)
    return root


if __name__ == "__main__":
    sys.exit(main())
