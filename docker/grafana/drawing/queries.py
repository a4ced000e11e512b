"""PromQL expressions shared by the dashboards."""

from __future__ import annotations

from parts import Panel, Query, S

NO_PROBES = 'route!~"/livez|/readyz|/health|/metrics"'
TRANSLATING = 'route=~"/translate|/v2/translate"'
FAULTS = 'reason=~"internal|oom|deadline|model_unloaded"'
QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))


def rate(series: str) -> str:
    return f"rate({series}[$__rate_interval])"


def quantile(share: float, name: str, labels: str) -> str:
    return f"histogram_quantile({share}, sum by (le) ({rate(f'{name}_bucket{{{labels}}}')}))"


def mean(name: str, labels: str) -> str:
    total, count = (rate(f"{name}_{part}{{{labels}}}") for part in ("sum", "count"))
    return f"sum({total}) / sum({count})"


REQUESTS = f"nmt_requests_total{{{S},{NO_PROBES}}}"
DURATION = "nmt_request_duration_seconds"
FAULT_SHARE = f"sum({rate(f'nmt_request_failures_total{{{S},{FAULTS}}}')}) / sum({rate(REQUESTS)})"


def quantiles(name: str, labels: str, *, exemplars: bool = False) -> list[Query]:
    return [Query(quantile(share, name, labels), text, exemplars) for share, text in QUANTILES]


def heatmap(title: str, description: str, name: str, labels: str, unit: str) -> Panel:
    expression = f"sum by (le) (increase({name}_bucket{{{labels}}}[$__rate_interval]))"
    query = Query(expression, "{{le}}", kind="heatmap")
    return Panel(title, description, [query], unit, "heatmap", minimum=None)


def rates_by(label: str, series: str) -> Query:
    return Query(f"sum by ({label}) ({rate(series)})", f"{{{{{label}}}}}")
