"""Exit codes, errors and settings shared by the ``dragoman`` subcommands.

Imports nothing at the top that takes time: help and completion need none of it.
"""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.settings import Settings

DONE, PARTLY, FAILED, INTERRUPTED = 0, 1, 2, 128 + signal.SIGINT


GET_ONE = "get a model: dragoman models add de-en"
"""Advice where there is no bundle."""


class CommandFailed(Exception):
    """The command cannot be carried out; only the message is printed."""


def message_of(error: Exception) -> str:
    """The sentence that a command prints for an error."""
    if not isinstance(error, OSError):
        return str(error)
    # A copy that fails is reported with its source and its target, which is the second.
    name = error.filename2 or error.filename
    where = f"{name}: " if name else ""
    return f"{where}{error.strerror or error}"


def add_bundles(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--bundles", metavar="DIR", help="directory that holds the bundles")


def settings_of(options: argparse.Namespace, **overrides: Any) -> Settings:
    """The settings of a command that has ``--bundles``; raises ``CommandFailed``."""
    from service.settings import Settings, users_directory

    settings = Settings.from_environment(bundles=options.bundles, **overrides)
    if settings.bundles == users_directory("bundles"):
        settings.bundles.mkdir(parents=True, exist_ok=True)
    if not settings.bundles.is_dir():
        raise CommandFailed(
            f"{settings.bundles} is not a directory; name the one that holds the bundles "
            "with --bundles"
        )
    return settings


def language(code: str) -> str:
    """The canonical form of a language code; raises ``CommandFailed``."""
    from models.bundle.languages import canonical

    try:
        return canonical(code)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
