from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service import bootstrap
from service.loading import devices
from service.observability.device import DeviceCollector, DeviceUnreadable
from service.runtime import cuda
from service.runtime.cuda import Gpu
from service.runtime.sessions import DeviceUnavailable
from service.settings import Settings
from tests.support.nvml import BUS_ID, GIB, UUID, FakeNvml, install
from tests.support.raising import raiser
from tests.support.toy import load_shouting, put_bundle
from tests.support.waiting import until


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    return install(monkeypatch)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"device": "cuda:0", "uuid": UUID, **labels})


def test_memory_and_use_of_a_gpu_are_read_at_each_scrape(nvml: FakeNvml) -> None:
    registry = CollectorRegistry()
    registry.register(DeviceCollector({"cuda:0": BUS_ID}))
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
    registry.register(DeviceCollector({"cuda:0": BUS_ID}))
    nvml.lost = True
    assert value(registry, "nmt_device_memory_bytes", kind="used") is None
    assert value(registry, "nmt_device_utilization_ratio") is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    nvml.lost = False
    assert value(registry, "nmt_device_utilization_ratio") == 0.75
    with pytest.raises(DeviceUnreadable, match=r"GPU 00000000:01:00\.0: Not Found"):
        DeviceCollector({"cuda:0": "00000000:01:00.0"})
    nvml.driver = False
    with pytest.raises(DeviceUnreadable, match="Driver Not Loaded"):
        DeviceCollector({"cuda:0": BUS_ID})


class FakeCuda:
    """Fake CUDA runtime with the one call that returns the PCI bus id."""

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def cudaDeviceGetPCIBusId(self, name: Any, size: int, device_id: int) -> int:  # noqa: N802
        assert (size, device_id) == (len(name), 0)
        name.value = BUS_ID.encode()
        return self.code


def use_gpu(monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
    monkeypatch.setattr(cuda, "_load_runtime", lambda: FakeCuda(code))
    monkeypatch.setattr(devices, "available_device", lambda _: "cuda")
    monkeypatch.setattr(devices, "chosen_gpus", lambda _: [Gpu(0, "NVIDIA H200", (9, 0))])


def test_service_on_a_cpu_has_no_device_series(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    registry = CollectorRegistry()
    devices.watch_devices(Settings(device="cpu"), registry)
    monkeypatch.setattr(devices, "available_device", raiser(DeviceUnavailable("there is no GPU")))
    devices.watch_devices(Settings(device="cuda"), registry)
    assert list(registry.collect()) == []
    assert not caplog.records


def test_a_gpu_that_cannot_be_watched_is_logged_and_serves(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    def watched(code: int = 0) -> CollectorRegistry:
        use_gpu(monkeypatch, code)
        registry = CollectorRegistry()
        devices.watch_devices(Settings(), registry)
        return registry

    assert list(watched(code=100).collect()) == []
    nvml.driver = False
    assert list(watched().collect()) == []
    monkeypatch.delitem(sys.modules, "service.observability.device")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list(watched().collect()) == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert "failed with error 100" in said[0]
    assert "Driver Not Loaded" in said[1]
    assert "install the extra gpu" in said[2]


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
