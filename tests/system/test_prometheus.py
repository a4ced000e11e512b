"""Tests of metrics, dashboards and alerts with a real Prometheus that scrapes a loaded server.

One run with a committed bundle and the repository's configuration and rules. A second instance has
GPU metrics from a fake driver, since test machines have no GPU.
"""

from __future__ import annotations

import asyncio
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from service.observability.device import DeviceCollector
from service.observability.model_series import unit_of
from tests.support import nvml
from tests.support.programs import ROOT
from tests.support.server import Server, running
from tests.support.toy import put_broken_bundle
from tests.support.waiting import cancelled
from tests.support.watching import PROMETHEUS, PanelQuery, operands, queries, rules, variables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
]

MODEL = "general-de-en"
DE_EN = {"source": "de", "target": "en"}
ADMIN = {"x-api-key": "admin"}
SCRAPE_SECONDS = 1
CHOSEN = {"$job": "dragoman", "$instance": ".*", "$model": ".*", "$__rate_interval": "10s"}
"""Grafana's values of the variables when all is selected."""
SENTENCE = "Ein Mann mit einem Hut steht vor einem alten Haus und wartet auf den Bus."


@dataclass(frozen=True, slots=True)
class PrometheusClient:
    """A running Prometheus and queries to it."""

    client: httpx.Client
    began: float

    def get(self, path: str, **parameters: Any) -> Any:
        response = self.client.get(f"/api/v1/{path}", params=parameters)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def values(self, expression: str) -> list[float]:
        """All values since the beginning, except NaN."""
        found = self.get(
            "query_range", query=expression, start=self.began, end=time.time(), step=SCRAPE_SECONDS
        )
        numbers = [float(value) for series in found["result"] for _, value in series["values"]]
        return [number for number in numbers if math.isfinite(number)]


@dataclass(frozen=True, slots=True)
class Watched:
    server: Server
    prometheus: PrometheusClient
    exposed: str
    """The metrics in Prometheus's text format."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    bundles, trouble = directory / "bundles", directory / "trouble"
    bundles.mkdir()
    (bundles / MODEL).symlink_to(ROOT / "bundles" / MODEL)
    settings: dict[str, Any] = {
        "slots": 4,
        "model_megabytes": 4_096,
        "threads": 1,
        "max_queue_tokens": 20_000,
        "max_queue_seconds": 600,
        "reload_seconds": 1,
        "admin_key": "admin",
        # No server listens on this port: traces are made and lost.
        "tracing": "http://127.0.0.1:9/v1/traces",
    }
    arguments = ["--real", "--memory-rate", "0.05", "--fail-rate", "0.02"]
    arguments += ["--only-while", str(trouble)]
    with (
        running(bundles, *arguments, **settings) as server,
        gpu_instance() as gpu_port,
        running_prometheus(
            directory, f"127.0.0.1:{server.port}", f"127.0.0.1:{gpu_port}"
        ) as prometheus,
    ):
        # A rate needs a series that exists before it grows.
        asyncio.run(work(server, bundles, trouble, "rot"))
        wait_for_scrapes(prometheus, 3)
        asyncio.run(work(server, bundles, trouble, "blau"))
        wait_for_scrapes(prometheus, 3)
        exposed = httpx.get(f"{server.address}/metrics").text
        yield Watched(server, prometheus, exposed)


@pytest.fixture
def prometheus(watched: Watched) -> PrometheusClient:
    return watched.prometheus


@contextmanager
def gpu_instance() -> Iterator[int]:
    """The port of an instance that has only GPU metrics."""
    with pytest.MonkeyPatch.context() as patch:
        nvml.install(patch)
        registry = CollectorRegistry()
        registry.register(DeviceCollector({"cuda:0": nvml.UUID}))
        server, thread = start_http_server(0, "127.0.0.1", registry)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def configuration(*targets: str) -> str:
    """The repository's configuration with other targets and shorter intervals."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    for interval in ("scrape_interval", "evaluation_interval"):
        config["global"][interval] = f"{SCRAPE_SECONDS}s"
    config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    del jobs["dragoman"]["dns_sd_configs"]
    jobs["dragoman"]["static_configs"] = [{"targets": list(targets)}]
    return yaml.safe_dump(config)


@contextmanager
def running_prometheus(directory: Path, *targets: str) -> Iterator[PrometheusClient]:
    config, log = directory / "prometheus.yml", directory / "prometheus.log"
    config.write_text(configuration(*targets), encoding="utf-8")
    program = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        "--enable-feature=exemplar-storage",
    ]
    with log.open("wb") as stderr, subprocess.Popen(program, stderr=stderr) as process:
        try:
            with httpx.Client(base_url=f"http://{listening(process, log)}") as client:
                yield PrometheusClient(client, time.time())
        finally:
            process.kill()


def listening(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address of a Prometheus, once it answers."""
    while True:
        text = log.read_text(encoding="utf-8")
        address = re.search(r'msg="Listening on" address=(\S+)', text)
        if address and "Server is ready to receive web requests" in text:
            return address[1]
        assert process.poll() is None, text
        time.sleep(0.05)


def wait_for_scrapes(prometheus: PrometheusClient, count: int) -> None:
    """Wait until current values have been scraped and rules evaluated on them."""
    job = {"query": 'scrape_samples_scraped{job="dragoman"}'}
    seen: set[str] = set()
    while len(seen) < count:
        found = prometheus.get("query", **job)["result"]
        at = prometheus.get("query", query='max(timestamp(up{job="dragoman"}))')["result"]
        if len(found) == 2 and at:
            seen.add(at[0]["value"][1])
        time.sleep(0.1)


async def work(server: Server, bundles: Path, trouble: Path, colour: str) -> None:
    """Requests with every kind of outcome, a reload, and a bundle that cannot be loaded.

    Another ``colour`` makes other sentences, which avoids cache hits.
    """
    sentence = SENTENCE.replace("Hut", f"Hut in {colour}")
    shutil.rmtree(bundles / "broken", ignore_errors=True)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.address, timeout=60, limits=limits) as client:
        answered = await translate(client, [f"{sentence} {n}." for n in range(40)])
        assert set(answered) == {200}

        same = await translate(client, [f"Ein Hund in {colour}."] * 8)
        again = await translate(client, [f"Ein Hund in {colour}."] * 2)
        assert {*same, *again} == {200}

        await overfill(client, sentence)

        short = {"q": sentence, **DE_EN, "max_decoding_length": 3}
        seen = await client.post("/translate", json={**short, "attention": True})
        assert seen.status_code == 200, seen.text
        invalid = await client.post("/translate", json={"q": "x", "source": "zz", "target": "en"})
        assert invalid.status_code == 400

        trouble.touch()
        troubled = await translate(client, [f"{sentence} {n}!" for n in range(40)])
        trouble.unlink()
        assert 500 in troubled, "nothing failed"
        assert 200 in troubled, "everything failed"

        put_broken_bundle(bundles, "broken")
        reloaded = await client.post("/models/reload", headers=ADMIN)
        assert set(reloaded.json()["failed"]) == {"broken"}
        later = await translate(client, [f"{sentence} {n}" for n in range(20)])
        assert set(later) == {200}


async def overfill(client: httpx.AsyncClient, sentence: str) -> None:
    """Exceed the admission limit until a request is refused; then cancel all other requests."""
    # Equal sentences would be decoded once, before the next text is prepared.
    texts = [" ".join(f"{sentence} {n}-{i}." for i in range(100)) for n in range(20)]
    left = {asyncio.create_task(translate(client, [text])) for text in texts}
    refused = False
    while left and not refused:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        refused = any(task.result() == [503] for task in done)
    assert refused, "no request was refused"
    assert left
    await cancelled(*left)


async def translate(client: httpx.AsyncClient, texts: list[str]) -> list[int]:
    answers = await asyncio.gather(
        *(client.post("/translate", json={"q": text, **DE_EN}) for text in texts)
    )
    return [answer.status_code for answer in answers]


def chosen(expression: str) -> str:
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"{expression} has a variable that no test knows"
    return expression


def documented() -> list[tuple[str, str, str]]:
    """Name, type and meaning of each metric in docs/operations.md."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(nmt_\w+)` \| (\w+) \| (.+) \|$", text, re.MULTILINE)


def test_every_documented_metric_is_scraped_with_help_and_unit(
    watched: Watched, prometheus: PrometheusClient
) -> None:
    known = prometheus.get("metadata")
    scraped = {
        name: (entries[0]["type"], entries[0]["help"], entries[0]["unit"])
        for name, entries in known.items()
        if name.startswith("nmt_")
    }
    assert scraped == {
        name.removesuffix("_total"): (kind, meaning, unit_of(name))
        for name, kind, meaning in documented()
    }
    for name, kind, _ in documented():
        assert prometheus.values(name + ("_count" if kind == "histogram" else "")), name
    outcome = subprocess.run(
        ["promtool", "check", "metrics"],
        input=watched.exposed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout + outcome.stderr) == (0, "")


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.place)
def test_every_query_of_every_dashboard_returns_data(
    prometheus: PrometheusClient, query: PanelQuery
) -> None:
    assert prometheus.values(chosen(query.expression)), query.expression


def test_variables_operands_of_alerts_and_recorded_series_have_values(
    prometheus: PrometheusClient,
) -> None:
    for query in variables():
        wanted = re.fullmatch(r"label_values\((.+), (\w+)\)", chosen(query.expression))
        assert wanted, "as Grafana reads it"
        # Grafana sends the same query.
        found = prometheus.get(f"label/{wanted[2]}/values", **{"match[]": wanted[1]})
        assert found, query.place
        assert found in (["dragoman"], [MODEL]) or all(":" in instance for instance in found)
    for rule in rules("alert").values():
        for operand in operands(rule["expr"]):
            assert prometheus.values(operand), operand
    for name in rules("record"):
        assert prometheus.values(name), name
    name = "nmt_request_duration_seconds_bucket"
    found = prometheus.get("query_exemplars", query=name, start=prometheus.began, end=time.time())
    exemplars = [exemplar for series in found for exemplar in series["exemplars"]]
    assert exemplars
    for each in exemplars:
        assert re.fullmatch(r"[0-9a-f]{32}", each["labels"]["trace_id"])


def test_prometheus_evaluates_every_rule_and_sees_the_broken_bundle(
    prometheus: PrometheusClient,
) -> None:
    groups = prometheus.get("rules")["groups"]
    evaluated = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert set(evaluated) == {*rules("alert"), *rules("record")}
    assert {rule["health"] for rule in evaluated.values()} == {"ok"}
    assert evaluated["DragomanBundlesFailed"]["state"] == "pending"
    for name in ("DragomanDown", "DragomanNotReady", "DragomanEngineDied", "DragomanRestarts"):
        assert evaluated[name]["state"] == "inactive"


def test_metrics_reflect_the_requests(prometheus: PrometheusClient) -> None:
    def last(expression: str) -> float:
        (series,) = prometheus.get("query", query=expression)["result"]
        return float(series["value"][1])

    for outcome in ("ok", "invalid", "rejected", "cancelled", "error"):
        assert last(f'sum(nmt_requests_total{{outcome="{outcome}"}})') > 0, outcome
    for reason in ("overloaded", "validation", "disconnect", "internal"):
        assert last(f'nmt_request_failures_total{{reason="{reason}"}}') > 0, reason
    for result in ("hit", "miss", "coalesced"):
        assert last(f'nmt_cache_lookups_total{{result="{result}"}}') > 0, result
    for reason in ("complete", "length"):
        assert last(f'nmt_finished_sentences_total{{finish_reason="{reason}"}}') > 0, reason
    assert last('sum(nmt_batch_joins_total{batch="running"})') > 0
    assert last('sum(nmt_batch_retires_total{reason="preempted"})') > 0
    assert last('nmt_reloads_total{outcome="failed"}') > 0
    assert last("nmt_bundles_failed") == 1
    assert last("nmt_ready") == 1
    assert 0 < last("nmt_kv_cache_bytes") < last("nmt_kv_cache_limit_bytes") == 2048 << 20
    assert last("nmt_engine_busy_seconds_total") > 0
    assert last('nmt_device_memory_bytes{kind="used"}') == 20 << 30
