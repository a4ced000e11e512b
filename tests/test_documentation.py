"""Tests that the documentation agrees with the code: settings, metrics, links."""

from __future__ import annotations

import ast
import re

import pytest

from service.observability.device import DeviceCollector
from service.observability.metrics import Metrics
from service.settings import PREFIX, Settings
from tests.support import nvml
from tests.support.programs import ROOT


def documented_rows(page: str) -> set[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        assert f"| `{PREFIX}{name.upper()}` | `{field.default}` | {field.description} |" in text


def test_every_metric_is_documented_and_every_documented_one_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml.install(monkeypatch)
    metrics = Metrics()
    metrics.registry.register(DeviceCollector({"cuda:0": nvml.UUID}))
    names = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for metric in metrics.registry.collect()
        if metric.name.startswith("nmt_")
    }
    documented = {row for row in documented_rows("operations.md") if row.startswith("nmt_")}
    assert documented == names


def functions_of(path: str) -> set[str]:
    """Names of the functions of a module, those of a class with its name."""
    tree = ast.parse((ROOT / "service" / path).read_text(encoding="utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    names = {each.name for each in tree.body if isinstance(each, functions)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            names |= {f"{owner.name}.{f.name}" for f in owner.body if isinstance(f, functions)}
    return names


def test_functions_in_the_life_of_a_request_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \| .* \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 8
    for row in rows:
        path = ""
        for name in re.findall(r"`([^`]+)`", row):
            if name.endswith(".py"):
                path = name
            else:
                assert name in functions_of(path), f"{path} has no {name}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_of_the_project_exist(page: str) -> None:
    rooms = "benchmarks|docs|dragoman|models|service|tests|training"
    for path in re.findall(rf"`((?:{rooms})/[\w./]+)`", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / path).exists() or (ROOT / f"{path}.py").exists(), path


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
