"""Opens backends within the free memory of a GPU, and warms them up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from service.runtime.backend import Backend, BeamBackend
from service.runtime.cuda import free_memory
from service.settings import Settings

logger = logging.getLogger(__name__)

BEAM_SHARE, GENERAL_SHARE = 0.3, 0.1
"""Parts of the free memory for keys and values: of beam searches on the GPU, of all others."""
_FEWEST_SLOTS = 8

B = TypeVar("B", Backend, BeamBackend)


def open_with_room(
    open_in: Callable[[int, int], B],
    model: str,
    number: int,
    slots: int,
    share: float,
    settings: Settings,
) -> B:
    """A backend with all the memory that its largest usual batch needs, and as many slots as fit.

    ``open_in`` opens one with so many slots and bytes for keys and values. Raises its errors, and
    ``MemoryError`` if there is no room for a few slots.
    """
    while True:
        free = free_memory(number)
        cache_bytes = settings.cache_megabytes << 20 or int(share * free)
        try:
            backend = _reserved(open_in(slots, cache_bytes))
        except MemoryError as error:
            if slots <= _FEWEST_SLOTS:
                raise
            slots //= 2
            logger.warning("GPU %d has too little memory for %s: %s", number, model, error)
            continue
        logger.info(
            "GPU %d had %.1f GiB free: %s has %d slots and at most %d MiB of keys and values",
            number,
            free / 2**30,
            model,
            backend.limits.slots,
            cache_bytes >> 20,
        )
        return backend


def _reserved(backend: B) -> B:
    try:
        backend.reserve()
    except BaseException:
        backend.close()
        raise
    return backend


def warm_up(backend: Backend | BeamBackend, model: str, device: str, settings: Settings) -> None:
    """Run the usual batches, on the engine thread, and log how many did."""
    if not settings.warm_up_seconds:
        return
    try:
        done = backend.warm_up(settings.max_padded_tokens, settings.warm_up_seconds)
    except MemoryError as error:
        logger.warning("memory is short for warming up %s on %s: %s", model, device, error)
        return
    logger.info(
        "%s on %s has run %d of %d usual batches in %.1f s",
        model,
        device,
        done.done,
        done.shapes,
        done.seconds,
    )
