"""Exit codes, errors and settings shared by the ``dragoman`` subcommands."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from models.bundle.languages import canonical
from service.settings import Settings

DONE, FAILED, INTERRUPTED = 0, 2, 128 + signal.SIGINT


class CommandFailed(Exception):
    """The command cannot be carried out; only the message is printed."""


def add_bundles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundles", metavar="DIR", help="directory that holds the bundles")


def settings_of(options: argparse.Namespace, **overrides: Any) -> Settings:
    """The settings of a command that has ``--bundles``; raises ``CommandFailed``."""
    settings = Settings.from_environment(bundles=options.bundles, **overrides)
    if not settings.bundles.is_dir():
        raise CommandFailed(
            f"{settings.bundles} is not a directory; name the one that holds the bundles "
            "with --bundles"
        )
    return settings


def language(code: str) -> str:
    """The canonical form of a language code; raises ``CommandFailed``."""
    try:
        return canonical(code)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
