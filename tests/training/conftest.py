"""Fixtures of the training tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def always_one_thread(one_thread: None) -> None:
    """See ``one_thread``."""
