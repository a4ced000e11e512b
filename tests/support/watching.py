"""What is in docker/prometheus and docker/grafana, taken apart for tests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
PROMETHEUS = ROOT / "docker" / "prometheus"
DASHBOARDS = ROOT / "docker" / "grafana" / "dashboards"

_COMPARISON = re.compile(r"(.+?)\s*(?:==|!=|>=|<=|>|<)\s*(?:[\d.]+|\([\d. *]+\))", re.DOTALL)


def rules(kind: str) -> dict[str, dict[str, Any]]:
    """The rules of a kind, ``alert`` or ``record``, by name."""
    described = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    found = [rule for group in described["groups"] for rule in group["rules"]]
    return {rule[kind]: rule for rule in found if kind in rule}


def operands(expression: str) -> list[str]:
    """What an alert's expression compares with numbers.

    Written as ``x > 1`` or ``x > 1 and y > 2``, it is silent where ``x`` is no more than 1, and
    just as silent where ``x`` does not exist at all; so tests ask for ``x``.
    """
    found = []
    for part in re.split(r"\s+and\s+", expression):
        matched = _COMPARISON.fullmatch(part.strip())
        assert matched, f"an alert is one comparison with a number, or several with and: {part}"
        found.append(matched[1])
    return found


def dashboards() -> dict[str, dict[str, Any]]:
    """Each dashboard by its file's name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS.iterdir()
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of a dashboard, and where it stands."""

    place: str
    expression: str


def queries() -> list[Asked]:
    """Every query of every panel and annotation."""
    found = []
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                found.append(Asked(f"{name}: {panel['title']} {target['refId']}", target["expr"]))
        for annotation in dashboard["annotations"]["list"]:
            # It marks moments, so between them there is nothing.
            for operand in operands(annotation["expr"]):
                found.append(Asked(f"{name}: {annotation['name']}", operand))
    return found


def variables() -> list[Asked]:
    """Every variable that is asked for, as ``label_values(series, label)``."""
    return [
        Asked(f"{name}: ${variable['name']}", variable["query"]["query"])
        for name, dashboard in dashboards().items()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
