"""The expected errors of commands. Importing their modules takes a second."""

from __future__ import annotations

from models.bundle.manifest import InvalidBundle
from models.export.errors import ParityError
from models.fetching.errors import FetchFailed
from models.importing.refusals import ImportRefused
from service.bulk.journal import UnusableJournal
from service.bulk.output import OutputTaken
from service.bulk.reading import BadLine
from service.bulk.rows import UnknownColumn
from service.bulk.source import BadSource
from service.bulk.translating import BlockFailed
from service.document_jobs.types import DocumentJobError
from service.documents import DocumentError
from service.engine.errors import EngineError
from service.observability.tracing import TracingUnavailable
from service.runtime.sessions import DeviceUnavailable
from service.settings import InvalidSetting
from service.state.errors import StateError, StateNotEmpty, StateUnavailable
from service.text.errors import TranslationError

REPORTED = (
    BadLine,
    BadSource,
    BlockFailed,
    DeviceUnavailable,
    DocumentError,
    DocumentJobError,
    EngineError,
    FetchFailed,
    ImportRefused,
    InvalidBundle,
    InvalidSetting,
    OutputTaken,
    ParityError,
    StateError,
    StateNotEmpty,
    StateUnavailable,
    TracingUnavailable,
    TranslationError,
    UnknownColumn,
    UnusableJournal,
)
"""Errors of which a command prints only the message."""
