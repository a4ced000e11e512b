"""Tests of Prometheus's rules and Grafana's dashboards that need neither program running."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.observability.device import DeviceCollector
from service.observability.metrics import Metrics
from tests.support import nvml
from tests.support.programs import ROOT, output_of
from tests.support.watching import PROMETHEUS, dashboards, operands, queries, rules, variables

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def panels() -> list[Any]:
    """Every dashboard's file with each of its panels."""
    found = [
        pytest.param(panel, id=f"{name}: {panel['title']}")
        for name, dashboard in dashboards().items()
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]
    assert found
    return found


@pytest.mark.parametrize("name", dashboards())
def test_panels_do_not_overlap_and_fill_their_width(name: str) -> None:
    cells: set[tuple[int, int]] = set()
    numbers = [panel["id"] for panel in dashboards()[name]["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in dashboards()[name]["panels"]:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not covered & cells, panel["title"]
        assert max(x for x, _ in covered) < 24
        cells |= covered


@pytest.mark.parametrize("panel", panels())
def test_every_panel_has_a_description_and_a_unit(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0


def test_names_are_unique_and_documented_panels_exist() -> None:
    for name in ("uid", "title"):
        assert len({each[name] for each in dashboards().values()}) == len(dashboards())
    documented = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    _, alerts = documented.split("\n## Alerts\n")
    named = set(re.findall(r'"([A-Z][^"\n]+)"', alerts))
    found = dashboards().values()
    assert named <= {panel["title"] for dashboard in found for panel in dashboard["panels"]}
    assert named


@pytest.fixture
def exposed(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The series names of each metric."""
    nvml.install(monkeypatch)
    metrics = Metrics()
    metrics.registry.register(DeviceCollector({"cuda:0": nvml.UUID}))
    ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        family.name: {family.name + end for end in ends.get(family.type, ("",))}
        for family in metrics.registry.collect()
    }


def series_in(expressions: Iterable[str]) -> set[str]:
    found = (re.findall(r"(?<![\w:])(?:nmt|process|python)_\w+", each) for each in expressions)
    return {name for names in found for name in names}


def test_every_queried_series_exists(exposed: dict[str, set[str]]) -> None:
    expressions = [query.expression for query in [*queries(), *variables()]]
    expressions += [rule["expr"] for kind in ("alert", "record") for rule in rules(kind).values()]
    assert series_in(expressions) <= set().union(*exposed.values())
    recorded = {
        name for each in expressions for name in re.findall(r"\bnamespace_job:\w+:\w+", each)
    }
    assert recorded == set(rules("record"))


def test_every_own_metric_is_on_a_dashboard(exposed: dict[str, set[str]]) -> None:
    shown = series_in(query.expression for query in queries())
    unseen = {name for name, series in exposed.items() if not series & shown}
    assert not {name for name in unseen if name.startswith("nmt_")}


def test_alerts_and_documentation_paragraphs_match() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    titled = re.findall(r"^### (.+)$", section, re.MULTILINE)
    assert titled == list(rules("alert"))
    paragraphs = re.split(r"^### .+$", section, flags=re.MULTILINE)[1:]
    for name, paragraph in zip(titled, paragraphs, strict=True):
        for part in ("**Means.**", "**Look.**", "**Do.**"):
            assert part in paragraph, f"{name} lacks {part}"


@pytest.mark.parametrize("name", rules("alert"))
def test_every_alert_has_a_severity_and_a_runbook_link(name: str) -> None:
    rule = rules("alert")[name]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"
    assert operands(rule["expr"])


def test_every_alert_is_tested_to_fire_and_to_be_silent() -> None:
    fires, silent = set(), []
    for number, case in enumerate(loaded(PROMETHEUS / "alerts_test.yml")["tests"]):
        for expected in case["alert_rule_test"]:
            if expected.get("exp_alerts"):
                fires.add(expected["alertname"])
            elif number == 0:
                silent.append(expected["alertname"])
    assert fires == set(rules("alert"))
    assert sorted(silent) == sorted(rules("alert"))


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "--lint-fatal", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
)
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    output_of(PROMTOOL, *arguments, cwd=PROMETHEUS)
