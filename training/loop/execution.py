"""Execution options of a run: compilation, CUDA graphs, checkpointing, bucketing, prefetching.

They may differ between machines. The recipe decides the results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from training.refusal import Refusal


class ImpossibleExecution(Refusal):
    """Execution options exclude one another; the message says which to leave out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    compile: bool = False
    """Fuse the network's kernels with ``torch.compile``."""
    cuda_graphs: bool = False
    """Replay recorded launches instead of launching kernel by kernel; needs ``compile``."""
    activation_checkpointing: bool = False
    """Keep only each layer's input, and recompute the layer in the backward pass."""
    length_multiple: int = 1
    """Lengths are rounded up to multiples of this, and the row count follows from the length; 1
    disables both. It determines batch composition, so it stays the same throughout a run."""
    prefetch: int = 4
    """Number of steps that the prefetch thread keeps ready."""

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
        """The default options on this kind of device."""
        plain = cls()
        if device.type == "cuda":
            return replace(plain, compile=True, length_multiple=4)
        return plain
