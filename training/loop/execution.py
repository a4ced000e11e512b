"""How a run is executed: what may differ from machine to machine and change no result's meaning.

What decides the results is in the recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from training.refusal import Refusal


class ImpossibleExecution(Refusal):
    """Options that exclude one another, and which to leave out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    compile: bool = False
    """Fuse the network's kernels with ``torch.compile``."""
    cuda_graphs: bool = False
    """Replay recorded launches instead of launching kernel by kernel; needs ``compile``."""
    activation_checkpointing: bool = False
    """Keep only what enters each layer, and compute the rest again on the way back."""
    length_multiple: int = 1
    """Lengths are rounded up to multiples of this, and rows follow from the length; 1: they are
    not. It decides who shares a batch, so it stays the same for all of a run."""
    prefetch: int = 4
    """Steps kept ready by a thread."""

    def __post_init__(self) -> None:
        if self.cuda_graphs and not self.compile:
            raise ImpossibleExecution(
                "CUDA graphs are recorded from compiled code: leave out --cuda-graphs, or compile"
            )
        if self.length_multiple < 1:
            raise ImpossibleExecution(
                f"lengths cannot be multiples of {self.length_multiple}; 1 leaves them as they are"
            )
        if self.prefetch < 1:
            raise ImpossibleExecution(
                f"{self.prefetch} steps kept ready are too few; 1 is the least"
            )

    @classmethod
    def default_for(cls, device: torch.device) -> Execution:
        """What is best where nothing else is asked for."""
        plain = cls()
        if device.type == "cuda":
            return replace(plain, compile=True, length_multiple=4)
        return plain
