"""Errors that reject a checkpoint's import."""

from __future__ import annotations

from training.refusal import Refusal


class NotACheckpoint(Refusal):
    """A file of the checkpoint is missing, unreadable or unsafe to read."""


class UnsupportedCheckpoint(Refusal):
    """The checkpoint is valid, but its kind has no equivalent in the graphs of a bundle."""


class UnknownLanguages(Refusal):
    """Languages are ambiguous, or the model does not translate them."""


class NeedsTexts(Refusal):
    """int8 was requested, but there are no texts to calibrate it with."""
