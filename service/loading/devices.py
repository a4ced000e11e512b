"""Registers Prometheus metrics of the GPUs that models run on, or of their absence."""

from __future__ import annotations

import logging

from service.observability.metrics import Metrics
from service.runtime.sessions import (
    DeviceUnavailable,
    available_device,
    chosen_gpus,
    missing_gpu,
)
from service.settings import Settings

logger = logging.getLogger(__name__)


def watch_devices(settings: Settings, metrics: Metrics) -> None:
    """Add the metrics of GPUs if models run on GPUs, and say why if they should and do not. Blocks.

    If a GPU cannot be read, an error is logged and the service runs without its metrics.
    """
    metrics.gpu_missing(missing_gpu(settings.device))
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
        metrics.registry.register(DeviceCollector({gpu.device: gpu.uuid for gpu in gpus}))
    except DeviceUnreadable as error:
        logger.error("GPUs are not watched: %s", error)
