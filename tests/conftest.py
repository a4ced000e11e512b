"""What every test shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A busy machine makes examples slow, not wrong.
settings.register_profile("dragoman", deadline=None)
settings.load_profile("dragoman")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
