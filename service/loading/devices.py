"""Registers Prometheus metrics of the GPU that models run on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from service.runtime.cuda import CudaError, pci_bus_id
from service.runtime.sessions import Device, DeviceUnavailable, available_device
from service.settings import Settings

logger = logging.getLogger(__name__)


def watch_device(
    settings: Settings,
    registry: CollectorRegistry,
    *,
    device_for: Callable[..., Device] = available_device,
) -> None:
    """Add GPU metrics to ``registry`` if models run on a GPU. Blocks.

    If the GPU cannot be read, an error is logged and the service runs without its metrics.
    """
    try:
        if device_for(settings.device) != "cuda":
            return
    except DeviceUnavailable:
        # Loading a bundle reports the same error.
        return
    try:
        from service.observability.device import DeviceCollector, DeviceUnreadable
    except ImportError:
        logger.error("the GPU is not watched: nvidia-ml-py is missing; install the extra gpu")
        return
    try:
        registry.register(DeviceCollector(pci_bus_id(0)))
    except (CudaError, DeviceUnreadable) as error:
        logger.error("the GPU is not watched: %s", error)
