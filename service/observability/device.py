"""Prometheus collector for memory and utilisation of NVIDIA GPUs, read from NVML.

Needs the extra gpu, and is imported only where models run on a GPU. NVML is read at each scrape and
answers in microseconds. Its values are of the whole device, with the use by other processes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import UUID

import pynvml
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

_PERCENT = 100


class DeviceUnreadable(Exception):
    """NVML cannot read the GPU; the message says why."""


class DeviceCollector(Collector):
    """Collector of all GPUs in use, labelled by device and UUID. Safe to call from any thread."""

    def __init__(self, uuids: Mapping[str, str]) -> None:
        """``uuids`` by device: 32 hexadecimal digits, of a GPU or a MIG instance. CUDA and NVML
        number devices differently.

        Raises ``DeviceUnreadable`` if there is no driver, or no such device.
        """
        self._gpus = [_Gpu(device, UUID(uuid)) for device, uuid in uuids.items()]

    def collect(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily(
            "nmt_device_memory_bytes",
            "Memory of the GPU, with that of other processes: kind is used or total.",
            labels=("device", "uuid", "kind"),
            unit="bytes",
        )
        busy = GaugeMetricFamily(
            "nmt_device_utilization_ratio",
            "Share of the last moments in which the GPU computed.",
            labels=("device", "uuid"),
            unit="ratio",
        )
        for gpu in self._gpus:
            gpu.read(memory, busy)
        return memory, busy


class _Gpu:
    def __init__(self, device: str, uuid: UUID) -> None:
        self._lost = False
        try:
            pynvml.nvmlInit()
            self._labels = device, f"GPU-{uuid}"
            try:
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(self._labels[1])
            except pynvml.NVMLError_NotFound:
                self._labels = device, f"MIG-{uuid}"
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(self._labels[1])
        except pynvml.NVMLError as error:
            raise DeviceUnreadable(f"NVML cannot find GPU {uuid}: {error}") from error

    def read(self, memory: GaugeMetricFamily, busy: GaugeMetricFamily) -> None:
        try:
            info = pynvml.nvmlDeviceGetMemoryInfo(self._handle)
            memory.add_metric((*self._labels, "used"), info.used)
            memory.add_metric((*self._labels, "total"), info.total)
            rates = pynvml.nvmlDeviceGetUtilizationRates(self._handle)
            busy.add_metric(self._labels, rates.gpu / _PERCENT)
        except pynvml.NVMLError_NotSupported:
            # Instances of MIG have no utilisation.
            return
        except pynvml.NVMLError as error:
            # A lost GPU must not make the scrape of the other series fail.
            if not self._lost:
                logger.error("NVML cannot read GPU %s: %s", self._labels[1], error)
            self._lost = True
        else:
            self._lost = False
