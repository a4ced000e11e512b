"""What a command of training says when the user can mend what is wrong."""

from __future__ import annotations


class Refusal(Exception):
    """A sentence that says what is wrong and what to do; the command line prints it as it is."""
