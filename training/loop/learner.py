"""One optimiser step: loss and gradients of a portion, clipping, and the weight update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import sdpa_kernel

from models.transformer.transformer import Transformer
from training import device as devices
from training.data.portions import Portion
from training.loop.distributed import World, unsynchronised
from training.loop.execution import Execution, ImpossibleExecution
from training.loop.guidance import Guide
from training.loop.objective import disagreement, projected_loss, smoothed_loss
from training.loop.optimiser import optimiser_for
from training.loop.precision import AUTOCAST, precision_for
from training.recipe import Optimisation
from training.refusal import Refusal


class Diverged(Refusal):
    """A loss or a gradient is NaN or infinite."""


class OutOfMemory(Refusal):
    """A step does not fit in the device's memory."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Loss and gradient norm of a step, perhaps still being computed; ``read`` waits for them."""

    step: int
    portion: Portion
    values: Tensor
    """Loss and norm, in memory of the host."""
    copied: torch.cuda.Event | None = None
    """Recorded behind the copy from a GPU. Waiting for it does not wait for steps after it."""

    @classmethod
    def of(cls, step: int, portion: Portion, loss: Tensor, norm: Tensor) -> Outcome:
        values = torch.stack((loss, norm))
        if not values.is_cuda:
            return cls(step, portion, values)
        there = torch.empty_like(values, device="cpu", pin_memory=True)
        there.copy_(values, non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        return cls(step, portion, there, copied)

    def read(self) -> tuple[float, float]:
        """Loss per target token and the gradient's norm before clipping.

        Raises ``Diverged`` naming step and batch if either is NaN or infinite.
        """
        if self.copied is not None:
            self.copied.synchronize()
        loss, norm = self.values.tolist()
        for name, value in (("loss", loss), ("gradient's norm", norm)):
            if not math.isfinite(value):
                begin = self.portion.begin
                raise Diverged(
                    f"the {name} is {value} at step {self.step}, which begins with batch "
                    f"{begin.batch} of epoch {begin.epoch}; lower the learning rate, or look for "
                    "what is odd about the data there. The last checkpoint is untouched: without "
                    "a change, the same command would go on from it and come to the same end"
                )
        return loss, norm


class Objective(nn.Module):
    """The network and its loss as one module, for ``torch.compile`` and DDP."""

    def __init__(
        self,
        network: Transformer,
        optimisation: Optimisation,
        compiled: bool = False,
        guide: Guide | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.smoothing = optimisation.label_smoothing
        """May change between steps."""
        self.r_drop = optimisation.r_drop
        self.guided_alignment = optimisation.guided_alignment
        self.guide = guide
        self.compiled = compiled

    def forward(
        self, source_BS: Tensor, input_BT: Tensor, positions_N: Tensor, targets_N: Tensor
    ) -> Tensor:
        """The sum of the target tokens' losses, in nats, and the weighted loss of the alignment.

        With R-Drop (Liang et al., 2021, section 2.1), both passes are rows of one batch, and the
        loss is half of the paper's: half the sum of both likelihood losses, plus half of the weight
        times the divergence of the passes. It equals the loss of one pass where both agree.
        """
        if self.r_drop:
            source_BS, input_BT = source_BS.repeat(2, 1), input_BT.repeat(2, 1)
            positions_N = torch.cat((positions_N, positions_N + input_BT.numel() // 2))
        maps: list[Tensor] = []
        memory_BSW = self.network.encode(source_BS)
        hidden_BTW = self.network.decode(
            memory_BSW, source_BS, input_BT, last_cross=None if self.guide is None else maps
        )
        # Padding is removed before the projection, the most expensive operation here.
        hidden_NW = hidden_BTW.flatten(0, 1).index_select(0, positions_N)
        pad = self.network.config.pad_id
        if self.r_drop:
            logits_NV = self.network.project(hidden_NW)
            likelihoods = smoothed_loss(logits_NV, targets_N.repeat(2), self.smoothing, pad)
            one_NV, other_NV = logits_NV.chunk(2)
            apart = disagreement(one_NV, other_NV, targets_N, pad)
            return 0.5 * likelihoods + 0.5 * self.r_drop * apart
        if self.compiled:
            logits_NV = self.network.project(hidden_NW)
            loss = smoothed_loss(logits_NV, targets_N, self.smoothing, pad)
        else:
            generator = self.network.generator
            loss = projected_loss(hidden_NW, generator, targets_N, self.smoothing, pad)
        if self.guide is not None:
            weights_NS = maps[0][:, 0].flatten(0, 1).index_select(0, positions_N)
            sources_NS = source_BS.index_select(0, positions_N // input_BT.size(1))
            misaligned = self.guide.loss(weights_NS, sources_NS, targets_N)
            loss = loss + self.guided_alignment * misaligned
        return loss


class Learner:
    """Executes optimiser steps on a network. Owns the optimiser; the network is shared."""

    def __init__(
        self,
        network: Transformer,
        optimisation: Optimisation,
        schedule: Callable[[int], float],
        device: torch.device,
        execution: Execution | None = None,
        world: World | None = None,
        backend: str | Callable[..., object] = "inductor",
        smoothing: Callable[[int], float] | None = None,
        guide: Guide | None = None,
    ) -> None:
        """``schedule`` and ``smoothing`` return learning rate and label smoothing of a step.
        ``guide`` is of guided alignment."""
        execution = Execution() if execution is None else execution
        self.world = World() if world is None else world
        if execution.cuda_graphs and (optimisation.accumulate > 1 or self.world.size > 1):
            raise ImpossibleExecution(
                "a recorded pass writes its gradients where the one before had them, so nothing "
                "can be added up: leave out --cuda-graphs, or train in one process with a recipe "
                "that does not accumulate"
            )
        devices.prepare(device)
        self.network = network
        self.device = device
        self.schedule = schedule
        self.autocast_dtype = AUTOCAST[precision_for(optimisation, network.config, device)]
        self.attention_kernels = devices.attention_kernels(device, self.autocast_dtype)
        self.optimiser = optimiser_for(network, optimisation, self.autocast_dtype)
        self._clip_norm = optimisation.clip_norm
        self._graphs = execution.cuda_graphs
        network.recomputing = execution.activation_checkpointing
        objective = Objective(network, optimisation, execution.compile, guide)
        self._unshared = objective
        self._smoothing = smoothing
        if execution.compile:
            # Symbolic batch sizes and lengths, so that one graph serves all shapes.
            mode = "reduce-overhead" if execution.cuda_graphs else None
            objective.compile(dynamic=True, mode=mode, backend=backend)
        self._objective = self.world.shared(objective, device)

    @property
    def lags(self) -> bool:
        """Whether a step may still be in progress when ``learn`` returns."""
        return self.device.type == "cuda"

    def learn(self, portion: Portion, step: int) -> Outcome:
        """Take step number ``step``, counted from one.

        Raises ``OutOfMemory``, and ``Diverged`` before any weight changes. Where ``lags``,
        ``Outcome.read`` raises ``Diverged`` instead, and the weights are already corrupted.
        """
        self.network.train()
        self.optimiser.zero_grad()
        if self._smoothing is not None:
            self._unshared.smoothing = self._smoothing(step)
        with _fitting():
            total = self._gradients(portion)
            norm = nn.utils.clip_grad_norm_(self.network.parameters(), self._clip_norm)
        outcome = Outcome.of(step, portion, self.world.total(total), norm)
        if not self.lags:
            outcome.read()
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule(step)
        with _fitting():
            self.optimiser.step()
        return outcome

    def _gradients(self, portion: Portion) -> Tensor:
        """Accumulate gradients over the portion; returns its part of the loss per token."""
        # Divided by the tokens of the whole step, accumulated gradients equal those of one large
        # batch. DDP also divides by the number of processes.
        tokens = portion.amount.target_tokens
        total = torch.zeros((), device=self.device)
        for i, batch in enumerate(portion.batches):
            there = batch.to(self.device)
            if self._graphs:
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            # The recomputation in the backward pass has to use the same kernels.
            with (
                unsynchronised(self._objective, last=i + 1 == len(portion.batches)),
                sdpa_kernel(self.attention_kernels),
            ):
                with torch.autocast(
                    self.device.type, self.autocast_dtype, enabled=self.autocast_dtype is not None
                ):
                    loss = self._objective(
                        there.source_BS, there.input_BT, there.positions_N, there.targets_N
                    )
                (loss * (self.world.size / tokens)).backward()
            total += loss.detach() / tokens
        return total


@contextmanager
def _fitting() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # On a CPU, torch has no exception type of its own for this.
        if not isinstance(error, torch.OutOfMemoryError) and "not enough memory" not in str(error):
            raise
        raise OutOfMemory(
            "a step does not fit in memory: halve tokens_per_batch and double accumulate in the "
            "recipe, which computes the same with half of the memory, or train with "
            f"--activation-checkpointing ({str(error).splitlines()[0]})"
        ) from error
