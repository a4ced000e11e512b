"""The processes that train one network together, and what they tell one another.

``torchrun`` starts them, on one machine or on several, and says in the environment who is who.
Gradients travel by NCCL between CUDA devices and by Gloo between CPUs; everything else travels by
Gloo, in a group that may wait for as long as the first process validates or saves.
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
    """This process among the others; alone, it has nobody to tell anything."""

    rank: int = 0
    size: int = 1
    control: distributed.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that validates, writes and speaks."""
        return self.rank == 0

    def shared(self, module: nn.Module, device: torch.device) -> nn.Module:
        """``module``, whose gradients are from here on the mean over all processes."""
        if self.size == 1:
            return module
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, gradient_as_bucket_view=True)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(value)
        return value

    def told(self, value: T) -> T:
        """The first process's ``value``; waits for the first process."""
        if self.size == 1:
            return value
        box: list[T] = [value]
        distributed.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def gathered(self, value: T) -> list[T]:
        """Everybody's ``value``, in the first process; elsewhere nothing."""
        if self.size == 1:
            return [value]
        found: list[T | None] | None = [None] * self.size if self.first else None
        distributed.gather_object(value, found, dst=0, group=self.control)
        return [each for each in found or [] if each is not None]


def unsynchronised(module: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Within it, gradients are added up in this process alone, unless it is the ``last`` pass."""
    if last or not isinstance(module, DistributedDataParallel):
        return nullcontext()
    return module.no_sync()


def is_distributed() -> bool:
    """Whether ``torchrun`` started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def own_device(device: torch.device) -> torch.device:
    """Each process of a machine gets a CUDA device of its own."""
    if device == torch.device("cuda"):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return device


def join(device: torch.device) -> World:
    """Meet the other processes, if there are any; ``leave`` parts."""
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
