"""Thread that parses long forms, one at a time: parsing takes some times their memory.

Clients take turns by address, see ``service.threads.fair_turns``. The key of a request is not known
before its form is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from service.threads.fair_turns import FairTurns
from service.translation.admission import Admission

T = TypeVar("T")

MOST_FORMS = 128
"""Forms that wait or are parsed, see ``Admission``. Each keeps its body."""


class FormThread:
    """Belongs to one event loop."""

    def __init__(self, most: int = MOST_FORMS) -> None:
        self._admission = Admission(most)
        self._turns = FairTurns(1)
        self._executor = ThreadPoolExecutor(1, "form")

    async def run(self, address: str, parse: Callable[[], T]) -> T:
        """The result of ``parse``; raises ``Overloaded`` if too many forms wait."""
        with self._admission.admitted(1, address):
            async with self._turns.turn(address):
                return await asyncio.get_running_loop().run_in_executor(self._executor, parse)


_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, FormThread] = WeakKeyDictionary()


def form_thread() -> FormThread:
    """The thread of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _threads:
        _threads[loop] = FormThread()
    return _threads[loop]
