"""Thread of long forms: order, share and bound of the clients that use it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from service.api.fields.long_forms import FormThread
from service.translation.errors import Overloaded


class Parsing:
    """Parses that note their names, of which the first waits until it is released."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.released = threading.Event()

    def of(self, name: str) -> Callable[[], None]:
        def parse() -> None:
            assert self.released.wait(10)
            self.parsed.append(name)

        return parse


async def started(forms: FormThread, parsing: Parsing, *names: str) -> list[asyncio.Task[None]]:
    """Tasks that parse forms in this order; the first letter of a name is the address."""
    tasks = [asyncio.create_task(forms.run(name[0], parsing.of(name))) for name in names]
    await asyncio.sleep(0)
    return tasks


async def test_form_of_another_address_is_parsed_before_later_forms_of_the_first() -> None:
    parsing = Parsing()
    tasks = await started(FormThread(), parsing, "a1", "a2", "a3", "b1")
    parsing.released.set()
    await asyncio.gather(*tasks)
    assert parsing.parsed == ["a1", "b1", "a2", "a3"]


async def test_full_thread_refuses_an_address_with_many_forms_and_admits_another() -> None:
    forms, parsing = FormThread(most=8), Parsing()
    tasks = await started(forms, parsing, *(f"a{n}" for n in range(8)))
    with pytest.raises(Overloaded):
        await forms.run("a", parsing.of("a8"))
    tasks += await started(forms, parsing, "b")
    parsing.released.set()
    await asyncio.gather(*tasks)
    assert parsing.parsed[:2] == ["a0", "b"]


async def test_cancelled_and_failed_forms_leave_the_thread_free() -> None:
    forms, parsing = FormThread(most=1), Parsing()
    (task,) = await started(forms, parsing, "a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    parsing.released.set()
    with pytest.raises(ZeroDivisionError):
        await forms.run("a", lambda: 1 // 0)
    assert await forms.run("a", lambda: 1) == 1
