"""Free heap memory is returned to the operating system."""

from __future__ import annotations

import ctypes
import sys

import pytest

from service.threads.allocator import give_memory_back
from tests.support.programs import resident_bytes


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="the C library gives memory back by itself, or never",
)
def test_free_memory_between_live_blocks_is_returned() -> None:
    # Too large for Python's own allocator, too small for mmap.
    blocks = [bytes(8_000) for _ in range(8_000)]
    kept = blocks[::100]
    full = resident_bytes()
    del blocks
    give_memory_back()
    assert len(kept) == 80
    assert resident_bytes() < full - (32 << 20)
