"""``ParityError``: an exported graph or network differs from the reference."""

from __future__ import annotations


class ParityError(Exception):
    """A network, or a graph of it, does not compute what the reference computes."""
