"""Data classes that render to Grafana's dashboard JSON: queries, panels, rows, variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
S = 'job="$job",instance=~"$instance"'
"""Label matchers of the selected services."""
M = S + ',model=~"$model"'
"""Label matchers of their selected models."""
WIDTH = 24


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""
    exemplars: bool = False
    kind: str = "time_series"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    steps: Sequence[tuple[float | None, str]] = ()
    """Thresholds: each colour applies from its value on."""
    minimum: float | None = 0
    maximum: float | None = None
    empty: str = ""
    """Text shown if a panel is expected to have no data."""

    def draw(self, number: int, place: dict[str, int]) -> dict[str, Any]:
        drawn: dict[str, Any] = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": SOURCE,
            "gridPos": place,
            "targets": [self._target(i, query) for i, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": OPTIONS[self.kind],
        }
        if self.kind == "table":
            drawn["transformations"] = [{"id": "organize", "options": {"excludeByName": HIDDEN}}]
        return drawn

    def _target(self, number: int, query: Query) -> dict[str, Any]:
        once = self.kind in {"stat", "table"}
        return {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "format": query.kind,
            "instant": once,
            "range": not once,
            "exemplar": query.exemplars,
        }

    def _defaults(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {"unit": self.unit}
        if self.minimum is not None:
            defaults["min"] = self.minimum
        if self.maximum is not None:
            defaults["max"] = self.maximum
        if self.empty:
            defaults["noValue"] = self.empty
        steps = self.steps or ((None, "green"),)
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"value": value, "color": color} for value, color in steps],
        }
        if self.kind == "stat":
            defaults["color"] = {"mode": "thresholds"}
        if self.kind == "timeseries":
            defaults["color"] = {"mode": "palette-classic"}
            defaults["custom"] = {
                "fillOpacity": 25 if self.stacked else 8,
                "lineWidth": 1,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if self.steps else "off"},
            }
        return defaults


HIDDEN = dict.fromkeys(("Time", "Value", "__name__", "job"), True)
OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "heatmap": {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": False},
    },
}


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]
    across: int = 3
    """Panels side by side."""
    height: int = 8


@dataclass(frozen=True, slots=True)
class Dashboard:
    name: str
    title: str
    description: str
    rows: Sequence[Row]

    def draw(self) -> dict[str, Any]:
        return {
            "uid": self.name,
            "title": self.title,
            "description": self.description,
            "tags": ["dragoman"],
            "editable": False,
            "graphTooltip": 1,
            "schemaVersion": 39,
            "refresh": "30s",
            "timezone": "browser",
            "time": {"from": "now-3h", "to": "now"},
            "links": [LINKS],
            "templating": {"list": list(VARIABLES)},
            "annotations": {"list": [STARTS]},
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterable[dict[str, Any]]:
        number, top = 0, 0
        for row in self.rows:
            number += 1
            yield {
                "id": number,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
                "panels": [],
            }
            top += 1
            width = WIDTH // row.across
            for place, panel in enumerate(row.panels):
                number += 1
                line, column = divmod(place, row.across)
                at = {"x": column * width, "y": top + line * row.height}
                yield panel.draw(number, {**at, "w": width, "h": row.height})
            top += -(-len(row.panels) // row.across) * row.height


LINKS = {
    "type": "dashboards",
    "tags": ["dragoman"],
    "title": "Dragoman",
    "asDropdown": False,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "tooltip": "",
    "url": "",
}
STARTS = {
    "name": "Starts",
    "datasource": SOURCE,
    "enable": True,
    "iconColor": "blue",
    "expr": f"changes(process_start_time_seconds{{{S}}}[1m]) > 0",
    "titleFormat": "{{instance}} has started",
}


def variable(name: str, label: str, query: str, *, several: bool) -> dict[str, Any]:
    everything = {"includeAll": True, "multi": True, "allValue": ".*"} if several else {}
    chosen = {"selected": True, "text": ["All"], "value": ["$__all"]} if several else {}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "current": chosen,
        **everything,
    }


VARIABLES = (
    {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    },
    variable("job", "Job", "label_values(nmt_build_info, job)", several=False),
    variable(
        "instance", "Instance", 'label_values(nmt_build_info{job="$job"}, instance)', several=True
    ),
    variable(
        "model", "Model", f"label_values(nmt_engine_busy_seconds_total{{{S}}}, model)", several=True
    ),
)
