"""Base class of the errors that the text of a request, or its languages, may cause."""

from __future__ import annotations


class TranslationError(Exception):
    """Base class of the errors of reading, routing and translating texts."""
