"""What every test shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine makes examples slow, not wrong.
settings.register_profile("dragoman", deadline=None)
settings.load_profile("dragoman")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Networks this small are slower on several threads of torch than on one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
