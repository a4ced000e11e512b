from __future__ import annotations

from collections.abc import Iterator

from service.api.errors import EXPECTED, REFUSALS


def leaves_of(kind: type[Exception]) -> Iterator[type[Exception]]:
    for child in kind.__subclasses__():
        yield child
        yield from leaves_of(child)


def test_every_error_a_caller_may_meet_has_a_status() -> None:
    known = {child for base in EXPECTED for child in leaves_of(base)}
    ours = {kind for kind in known if kind.__module__.startswith("service.")}
    assert ours == set(REFUSALS)
