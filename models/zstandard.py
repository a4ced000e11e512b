"""Zstandard of the standard library, or its backport before Python 3.14."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["WINDOW", "zstd"]

WINDOW = {int(zstd.DecompressionParameter.window_log_max): 27}
"""Frames may refer back by 128 MiB; those of Mozilla need 8 MiB."""
