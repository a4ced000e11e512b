"""Registers Prometheus metrics of the GPUs that models run on."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry

from service.runtime.cuda import CudaError, pci_bus_id
from service.runtime.sessions import DeviceUnavailable, available_device, chosen_gpus
from service.settings import Settings

logger = logging.getLogger(__name__)


def watch_devices(settings: Settings, registry: CollectorRegistry) -> None:
    """Add GPU metrics to ``registry`` if models run on GPUs. Blocks.

    If a GPU cannot be read, an error is logged and the service runs without its metrics.
    """
    try:
        if available_device(settings.device) != "cuda":
            return
        gpus = chosen_gpus(settings.gpus)
    except DeviceUnavailable:
        # Loading a bundle reports the same error.
        return
    try:
        from service.observability.device import DeviceCollector, DeviceUnreadable
    except ImportError:
        logger.error("GPUs are not watched: nvidia-ml-py is missing; install the extra gpu")
        return
    try:
        bus_ids = {gpu.device: pci_bus_id(gpu.number) for gpu in gpus}
        registry.register(DeviceCollector(bus_ids))
    except (CudaError, DeviceUnreadable) as error:
        logger.error("GPUs are not watched: %s", error)
