"""Errors that reject a model's import; the message says what is wrong and what to do."""

from __future__ import annotations


class ImportRefused(Exception):
    """A model cannot be imported; the command line prints the message unchanged."""


class NotACheckpoint(ImportRefused):
    """A file of the checkpoint is missing, unreadable or unsafe to read."""


class UnsupportedCheckpoint(ImportRefused):
    """The checkpoint is valid, but its kind has no equivalent in the graphs of a bundle."""


class UnknownLanguages(ImportRefused):
    """Languages are ambiguous, or the model does not translate them."""


class NeedsTexts(ImportRefused):
    """The texts cannot be read, or are too few to calibrate int8."""
