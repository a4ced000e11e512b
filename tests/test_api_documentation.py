"""The examples of docs/api.md and README.md, run against a service and compared with its answers.

An example is a fenced ``sh`` block with curl, followed by a fenced answer. Its output is compared
with the answer by ``tests.support.fitting``: as JSON where both are JSON, otherwise line by line.
``$name`` is the value of that field in the latest answer that has it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.server import serving
from tests.support.fitting import fits
from tests.support.programs import ROOT

BUNDLES = ROOT / "bundles"
DOCUMENTED = "127.0.0.1:8000"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    page: str
    line: int
    command: str
    answer: str


def examples(page: str) -> Iterator[Example]:
    text = (ROOT / page).read_text(encoding="utf-8")
    fences = [*_FENCE.finditer(text), None]
    for fence, following in pairwise(fences):
        assert fence is not None
        if fence[1] != "sh" or "curl" not in fence[2]:
            continue
        line = text.count("\n", 0, fence.start()) + 1
        assert following is not None, f"{page}:{line} has no answer"
        assert following[1] != "sh", f"{page}:{line} has no answer"
        yield Example(page, line, fence[2], following[2])


def documents(text: str) -> list[Any] | None:
    """The consecutive JSON documents in a text, or ``None`` if it has other content."""
    found, decoder = [], json.JSONDecoder()
    text = text.strip()
    while text:
        try:
            document, end = decoder.raw_decode(text)
        except ValueError:
            return None
        found.append(document)
        text = text[end:].lstrip()
    return found


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs the examples in sequence, with the variables of earlier answers."""

    directory: Path
    address: str
    known: dict[str, str]

    def run(self, command: str) -> str:
        script = command.replace(DOCUMENTED, self.address)
        known = {n: v.replace(DOCUMENTED, self.address) for n, v in self.known.items()}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env={**os.environ, "LC_ALL": "C.UTF-8", **known},
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout!r}\n{done.stderr.decode()}"
        said = done.stdout.decode().replace(self.address, DOCUMENTED)
        for document in documents(said) or ():
            if isinstance(document, dict):
                self.known.update({n: v for n, v in document.items() if isinstance(v, str)})
        return said


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    settings = {"SUGGESTIONS": "true", "API_KEYS": "optional", "ADMIN_KEY": "operator"}
    with serving(BUNDLES, SLOTS="16", **settings) as (url, _):
        yield Shell(tmp_path_factory.mktemp("examples"), url.removeprefix("http://"), {})


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_every_example_is_answered_as_documented(shell: Shell, page: str) -> None:
    found = list(examples(page))
    assert found
    for example in found:
        said = shell.run(example.command)
        where = f"{example.page}:{example.line}\n{example.command}"
        expected = documents(example.answer)
        if expected is None:
            lines = said.replace("\r\n", "\n").rstrip("\n"), example.answer.rstrip("\n")
            assert fits(*lines), f"{where}{said}"
        else:
            assert fits(documents(said), expected), f"{where}{said}"


@pytest.mark.slow
def test_every_operation_is_documented(shell: Shell) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    document = httpx.get(f"http://{shell.address}/openapi.json").json()
    operations = {
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item
    }
    missing = sorted(each for each in operations if f"`{each}`" not in text)
    assert not missing


def test_only_ellipsis_matches_anything() -> None:
    assert fits({"id": "x", "a": 1, "list": [1, 2]}, {"id": "…", "list": [1, "…"], "…": "…"})
    assert fits("GET /a 200", "GET … 200")
    assert fits(0.501, 0.5)
    assert not fits({"a": 1, "b": 2}, {"a": 1})
    assert not fits([1, 2], [1])
    assert not fits(True, 1)
    assert not fits("GET /a 404", "GET … 200")
    assert documents('{"a":1}[2]\n') == [{"a": 1}, [2]]
    assert documents("event: part") is None
