"""Base exception of training for errors that the user can correct."""

from __future__ import annotations


class Refusal(Exception):
    """The message says what is wrong and what to do; the command line prints it unchanged."""
