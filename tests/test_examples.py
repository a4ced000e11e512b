"""Tests that each program of ``examples/`` is short and prints what its docstring says."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.server import serving
from tests.support.programs import ROOT, python
from tests.test_api_documentation import fits

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ROOT / "bundles", SLOTS="4") as (url, _):
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_documented_output(program: Path, url: str, tmp_path: Path) -> None:
    files = []
    if program.stem == "bulk":
        files = [str(tmp_path / name) for name in ("source.txt", "target.txt")]
        Path(files[0]).write_text("Zwei Hunde laufen.\n\nEine Katze schläft.\n", "utf-8")
    documented = ast.get_docstring(ast.parse(program.read_text("utf-8"))) or ""
    expected = textwrap.dedent(documented.split("\nprints\n\n")[1])
    assert fits(python(str(program), *files, url).rstrip("\n"), expected.rstrip("\n"))
    if files:
        assert len(Path(files[1]).read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_at_most_40_lines(program: Path) -> None:
    assert len(program.read_text("utf-8").splitlines()) <= 40
