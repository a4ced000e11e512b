"""Startup check that the state directory and database can be written."""

from __future__ import annotations

import os
from pathlib import Path

from service.settings import Settings
from service.state.database import Database
from service.state.errors import StateUnavailable

DOCUMENTS = "documents"
"""The directory inside ``DRAGOMAN_STATE`` that holds translated documents."""


async def check_state(settings: Settings) -> None:
    """Create missing state files and directories; raises ``StateUnavailable``."""
    async with Database.at(settings.state):
        pass
    if settings.documents and settings.state_directory is not None:
        _check_documents(settings.state_directory / DOCUMENTS)


def _check_documents(directory: Path) -> None:
    remedy = "move it away, let this process write there, or set DRAGOMAN_DOCUMENTS to false"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        problem = f"cannot make the directory: {error.strerror}"
        raise StateUnavailable(directory, problem, remedy) from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise StateUnavailable(directory, "cannot be read and written", remedy)
