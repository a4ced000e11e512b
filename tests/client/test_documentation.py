"""The examples of docs/client.md, run one after another against a service.

An example is a fenced ``python`` block. A fenced ``text`` block after it is its output, where ``…``
matches anything.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.errors import DragomanError
from tests.support.fitting import fits

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
DOCUMENTED = "http://127.0.0.1:8000"

_EXAMPLE = re.compile(
    r"^```python\n(?P<program>.*?)^```\n(?:^```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    line: int
    program: str
    printed: str


def examples() -> Iterator[Example]:
    text = PAGE.read_text(encoding="utf-8")
    for found in _EXAMPLE.finditer(text):
        yield Example(
            text.count("\n", 0, found.start()) + 2, found["program"], found["printed"] or ""
        )


@pytest.mark.slow
def test_every_example_prints_documented_output(bundles_url: str) -> None:
    known: dict[str, Any] = {}
    found = list(examples())
    assert len(found) == PAGE.read_text(encoding="utf-8").count("```python")
    try:
        for example in found:
            program = example.program.replace(DOCUMENTED, bundles_url)
            # Pad with newlines, so that a traceback shows the line of the page.
            code = compile("\n" * (example.line - 1) + program, str(PAGE), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, known)
            assert fits(printed.getvalue().rstrip("\n"), example.printed.rstrip("\n")), (
                f"line {example.line}: {printed.getvalue()}"
            )
    finally:
        if "client" in known:
            known["client"].close()


def test_every_kind_of_error_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in dragoman.__all__:
        member = getattr(dragoman, name)
        if isinstance(member, type) and issubclass(member, DragomanError):
            assert f"`{name}`" in text


def test_every_method_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in vars(dragoman.Client):
        if not name.startswith("_"):
            assert re.search(rf"\b{name}\b", text), name
