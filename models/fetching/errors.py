"""Error of fetching."""

from __future__ import annotations


class FetchFailed(Exception):
    """A model cannot be fetched; the message says why, in one line."""
