"""Why a checkpoint is not imported."""

from __future__ import annotations

from training.refusal import Refusal


class NotACheckpoint(Refusal):
    """A file of the checkpoint is missing, or cannot be read, or not safely."""


class UnsupportedCheckpoint(Refusal):
    """The checkpoint is in order, but not of a kind that the graphs of a bundle can carry."""


class UnknownLanguages(Refusal):
    """Which languages are meant cannot be told, or the model does not translate them."""


class NeedsTexts(Refusal):
    """int8 was asked for, and nothing says how large activations get."""
