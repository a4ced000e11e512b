"""Parses the rules in docker/prometheus and the dashboards in docker/grafana for tests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.programs import ROOT

PROMETHEUS = ROOT / "docker" / "prometheus"
DASHBOARDS = ROOT / "docker" / "grafana" / "dashboards"

_COMPARISON = re.compile(r"(.+?)\s*(?:==|!=|>=|<=|>|<)\s*(?:[\d.]+|\([\d. *]+\))", re.DOTALL)


def rules(kind: str) -> dict[str, dict[str, Any]]:
    """The rules of a kind, ``alert`` or ``record``, by name."""
    described = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    found = [rule for group in described["groups"] for rule in group["rules"]]
    return {rule[kind]: rule for rule in found if kind in rule}


def operands(expression: str) -> list[str]:
    """The expressions that an alert compares with numbers.

    An alert such as ``x > 1`` or ``x > 1 and y > 2`` is silent if ``x`` is at most 1, and also if
    ``x`` does not exist; so tests check that ``x`` exists.
    """
    found = []
    for part in re.split(r"\s+and\s+", expression):
        matched = _COMPARISON.fullmatch(part.strip())
        assert matched, f"an alert is one comparison with a number, or several with and: {part}"
        found.append(matched[1])
    return found


def dashboards() -> dict[str, dict[str, Any]]:
    """Each dashboard by its file name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS.iterdir()
    }


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """A query of a dashboard, and its place."""

    place: str
    expression: str


def queries() -> list[PanelQuery]:
    """Every query of every panel and annotation."""
    found = []
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                found.append(
                    PanelQuery(f"{name}: {panel['title']} {target['refId']}", target["expr"])
                )
        for annotation in dashboard["annotations"]["list"]:
            # It marks moments, so it has no values between them.
            for operand in operands(annotation["expr"]):
                found.append(PanelQuery(f"{name}: {annotation['name']}", operand))
    return found


def variables() -> list[PanelQuery]:
    """Every dashboard variable that is queried, as ``label_values(series, label)``."""
    return [
        PanelQuery(f"{name}: ${variable['name']}", variable["query"]["query"])
        for name, dashboard in dashboards().items()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
