"""What commands share: how they end, and the settings they work with."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from models.bundle.languages import canonical
from service.settings import Settings

DONE, FAILED, INTERRUPTED = 0, 2, 128 + signal.SIGINT


class CommandFailed(Exception):
    """What was asked for could not be done; the message is all that is shown."""


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
    """A language by any of its codes; raises ``CommandFailed``."""
    try:
        return canonical(code)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
