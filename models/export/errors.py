"""Error of the parity proof."""

from __future__ import annotations


class ParityError(Exception):
    """A network, or a graph of it, does not compute what the reference computes."""
