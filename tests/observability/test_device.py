from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from service import bootstrap
from service.loading import devices
from service.observability.device import DeviceCollector, DeviceUnreadable
from service.observability.metrics import Metrics
from service.runtime.cuda import Gpu
from service.runtime.sessions import DeviceUnavailable
from service.settings import Settings
from tests.support.nvml import GIB, UUID, FakeNvml, install
from tests.support.raising import raiser
from tests.support.toy import load_shouting, put_bundle
from tests.support.waiting import until


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    return install(monkeypatch)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"device": "cuda:0", "uuid": f"GPU-{UUID}", **labels})


def test_memory_and_use_of_a_gpu_are_read_at_each_scrape(nvml: FakeNvml) -> None:
    registry = CollectorRegistry()
    registry.register(DeviceCollector({"cuda:0": UUID}))
    assert value(registry, "nmt_device_memory_bytes", kind="used") == 20 * GIB
    assert value(registry, "nmt_device_memory_bytes", kind="total") == 80 * GIB
    assert value(registry, "nmt_device_utilization_ratio") == 0.75
    nvml.used, nvml.busy_percent = 30 * GIB, 100
    assert value(registry, "nmt_device_memory_bytes", kind="used") == 30 * GIB
    assert value(registry, "nmt_device_utilization_ratio") == 1


def test_lost_or_unknown_gpu_has_no_series_and_is_named(
    nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    registry.register(DeviceCollector({"cuda:0": UUID}))
    nvml.lost = True
    assert value(registry, "nmt_device_memory_bytes", kind="used") is None
    assert value(registry, "nmt_device_utilization_ratio") is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    nvml.lost = False
    assert value(registry, "nmt_device_utilization_ratio") == 0.75
    with pytest.raises(DeviceUnreadable, match=r"GPU 00000000-.*: Not Found"):
        DeviceCollector({"cuda:0": "0" * 32})
    nvml.driver = False
    with pytest.raises(DeviceUnreadable, match="Driver Not Loaded"):
        DeviceCollector({"cuda:0": UUID})


def use_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "missing_gpu", lambda _: "")
    monkeypatch.setattr(devices, "available_device", lambda _: "cuda")
    monkeypatch.setattr(devices, "chosen_gpus", lambda _: [Gpu(0, "NVIDIA H200", (9, 0), UUID)])


def watch(settings: Settings) -> Metrics:
    metrics = Metrics()
    devices.watch_devices(settings, metrics)
    return metrics


def watched(monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    use_gpu(monkeypatch)
    return watch(Settings()).registry


def test_instance_of_mig_has_its_memory_and_no_use(
    nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    nvml.mig = True
    registry = CollectorRegistry()
    registry.register(DeviceCollector({"cuda:0": UUID}))
    found = registry.get_sample_value(
        "nmt_device_memory_bytes",
        {"device": "cuda:0", "uuid": f"MIG-{UUID}", "kind": "used"},
    )
    assert found == 20 * GIB
    assert not caplog.records


def test_installation_for_gpus_without_one_has_a_series_and_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "missing_gpu", lambda _: "there is no NVIDIA driver")
    monkeypatch.setattr(devices, "available_device", lambda _: "cpu")
    metrics = watch(Settings())
    assert metrics.registry.get_sample_value("nmt_gpu_missing") == 1
    assert metrics.missing_gpu_reason == "there is no NVIDIA driver"


@pytest.mark.usefixtures("nvml")
def test_the_gpu_that_models_run_on_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert value(watched(monkeypatch), "nmt_device_utilization_ratio") == 0.75


def test_service_on_a_cpu_has_no_device_series(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(devices, "missing_gpu", lambda _: "")
    found = [watch(Settings(device="cpu"))]
    monkeypatch.setattr(devices, "available_device", raiser(DeviceUnavailable("there is no GPU")))
    found.append(watch(Settings(device="cuda")))
    for metrics in found:
        assert value(metrics.registry, "nmt_device_utilization_ratio") is None
        assert metrics.registry.get_sample_value("nmt_gpu_missing") == 0
    assert not caplog.records


def test_a_gpu_that_cannot_be_watched_is_logged_and_serves(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    def use() -> float | None:
        return value(watched(monkeypatch), "nmt_device_utilization_ratio")

    nvml.driver = False
    assert use() is None
    monkeypatch.delitem(sys.modules, "service.observability.device")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert use() is None
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "Driver Not Loaded" in said[0]
    assert "install the extra gpu" in said[1]


@pytest.mark.usefixtures("nvml")
def test_service_on_a_gpu_exposes_gpu_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_gpu(monkeypatch)
    put_bundle(tmp_path / "bundles", "shout-de-en")
    settings = Settings(bundles=tmp_path / "bundles", state=tmp_path / "state")

    async def shown() -> float | None:
        async with bootstrap.running(settings, load_shouting) as service:
            registry = service.metrics.registry
            await until(lambda: value(registry, "nmt_device_utilization_ratio") is not None)
            return value(registry, "nmt_device_memory_bytes", kind="total")

    assert asyncio.run(shown()) == 80 * GIB
