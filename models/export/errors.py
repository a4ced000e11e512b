"""Errors that reject an export: graphs differ from the network, or the network overflows."""

from __future__ import annotations


class ParityError(Exception):
    """A network, or a graph of it, does not compute what the reference computes."""


class NotFinite(ParityError):
    """A value that the network computes is infinite or not a number."""
