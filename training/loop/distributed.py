"""Data-parallel training over the processes that ``torchrun`` starts: all-reduce and broadcast.

``torchrun`` starts processes on one or several machines and sets their ranks in the environment.
NCCL transfers gradients between CUDA devices, Gloo between CPUs. Everything else uses a Gloo group
whose timeout is long enough for the first process to validate or save.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")

_PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class World:
    """Rank and process group of this process; collectives do nothing if ``size`` is 1."""

    rank: int = 0
    size: int = 1
    control: distributed.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process validates, writes files and prints."""
        return self.rank == 0

    def shared(self, module: nn.Module, device: torch.device) -> nn.Module:
        """``module``, wrapped so that its gradients are the mean over all processes."""
        if self.size == 1:
            return module
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, gradient_as_bucket_view=True)

    def total(self, value: Tensor) -> Tensor:
        """Sum over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def broadcast(self, value: T) -> T:
        """Broadcast the first process's ``value``; blocks until the first process arrives."""
        if self.size == 1:
            return value
        box: list[T] = [value]
        distributed.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def gathered(self, value: T) -> list[T]:
        """The values of all processes; an empty list in all processes but the first."""
        if self.size == 1:
            return [value]
        found: list[T | None] | None = [None] * self.size if self.first else None
        distributed.gather_object(value, found, dst=0, group=self.control)
        return [each for each in found or [] if each is not None]


def unsynchronised(module: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Context that accumulates gradients locally, unless the pass is the step's ``last``."""
    if last or not isinstance(module, DistributedDataParallel):
        return nullcontext()
    return module.no_sync()


def is_distributed() -> bool:
    """Whether ``torchrun`` started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def own_device(device: torch.device) -> torch.device:
    """The CUDA device of this process, by its local rank; any other device unchanged."""
    if device == torch.device("cuda"):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return device


def join(device: torch.device) -> World:
    """Initialise the process group under ``torchrun``; undone by ``leave``."""
    if not is_distributed():
        return World()
    if device.type == "cuda":
        torch.cuda.set_device(device)
        distributed.init_process_group("nccl", device_id=device)
    else:
        distributed.init_process_group("gloo", timeout=_PATIENCE)
    control = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    return World(distributed.get_rank(), distributed.get_world_size(), control)


def leave(world: World) -> None:
    if world.size > 1:
        distributed.destroy_process_group()
