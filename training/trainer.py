"""The loop: batches in, checkpoints out; a run that is killed goes on as if it had not been."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from models.bundle.manifest import SpecialIds
from models.bundle.tokenizer import Tokenizer
from models.transformer.transformer import build
from training import checkpoint
from training.data.batching import Batch, BatchLoader, Cursor
from training.data.shards import Shards
from training.log import RunLog
from training.objective import smoothed_loss
from training.recipe import InvalidRecipe, Recipe, RunDirectory
from training.schedule import schedule_of
from training.validation import Validation, validate

logger = logging.getLogger(__name__)

_ALL_KERNELS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]

_DECIDING = ("data", "vocabulary", "network", "optimisation", "seed")
"""The parts of a recipe that decide what a step computes."""


@dataclass(slots=True)
class Progress:
    """Where the run stands; saved with every checkpoint."""

    step: int = 0
    tokens: int = 0
    best_bleu: float = -1.0
    best_step: int = 0
    validations_without_gain: int = 0


class Trainer:
    """Owns the network, the optimiser, the place in the data and the random state."""

    def __init__(self, recipe: Recipe, run: RunDirectory, device: torch.device) -> None:
        self.recipe = recipe
        self.run = run
        self.device = device
        # Before the tokenizer: their absence says that the recipe has not been prepared.
        train, self.valid = Shards.open(run.shards("train")), Shards.open(run.shards("valid"))
        _require_prepared_for(recipe, run)
        self.tokenizer = Tokenizer.load(run.tokenizer)
        self.special: SpecialIds = self.tokenizer.special_ids
        self.loader = BatchLoader(
            train,
            self.special,
            recipe.optimisation.tokens_per_batch,
            recipe.seed,
        )
        self.network = build(recipe.network.config(self.tokenizer.vocabulary_size), recipe.seed).to(
            device
        )
        self.optimiser = torch.optim.Adam(
            self.network.parameters(),
            lr=0.0,
            betas=recipe.optimisation.betas,
            eps=recipe.optimisation.epsilon,
            fused=True,
        )
        self.schedule = schedule_of(recipe)
        self.progress = Progress()
        self.autocast_dtype = _autocast_dtype(recipe, device)
        # In bf16 on a CPU, the fused kernel's backward pass takes six times as long for short
        # sentences as plain products do.
        plain = device.type == "cpu" and self.autocast_dtype is not None
        self.attention_kernels = [SDPBackend.MATH] if plain else _ALL_KERNELS

    def train(self) -> Progress:
        """Train to the end of the budget, from the last checkpoint if there is one."""
        budget = self.recipe.budget
        self._resume()
        log = RunLog(self.run.log, self.progress.step)
        bar = tqdm(total=budget.steps, initial=self.progress.step, unit="step", dynamic_ncols=True)
        try:
            while self.progress.step < budget.steps and not self._out_of_patience:
                started = time.perf_counter()
                loss, tokens, norm = self.train_step()
                seconds = time.perf_counter() - started
                step = self.progress.step
                rate = self.schedule(step)
                log.write("train", step, loss=loss, learning_rate=rate, gradient_norm=norm)
                speed = f"{tokens / seconds:.0f}"
                bar.set_postfix(loss=f"{loss:.3f}", tokens_per_s=speed, refresh=False)
                bar.update()
                if step % budget.validate_every == 0 or step == budget.steps:
                    self._validate(log)
                    log.sync()
                    self._save()
        finally:
            bar.close()
            log.close()
        return self.progress

    def train_step(self) -> tuple[float, int, float]:
        """One optimiser step; returns loss per target token, target tokens, gradient norm."""
        self.network.train()
        optimisation = self.recipe.optimisation
        batches = [self.loader.next() for _ in range(optimisation.accumulate)]
        # Divided by the tokens of all batches together, accumulated gradients are those of one
        # large batch.
        tokens = sum(batch.num_target_tokens for batch in batches)
        self.optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for batch in batches:
            loss = self._loss(batch) / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise FloatingPointError(
                f"the loss is {total} at step {self.progress.step + 1}; lower the learning rate"
            )
        norm = float(nn.utils.clip_grad_norm_(self.network.parameters(), optimisation.clip_norm))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"the gradient's norm is {norm} at step {self.progress.step + 1}; "
                "lower the learning rate"
            )
        self.progress.step += 1
        self.progress.tokens += tokens
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule(self.progress.step)
        self.optimiser.step()
        return total, tokens, norm

    def _loss(self, batch: Batch) -> torch.Tensor:
        source_BS = batch.source_BS.to(self.device, non_blocking=True)
        input_BT = batch.input_BT.to(self.device, non_blocking=True)
        output_BT = batch.output_BT.to(self.device, non_blocking=True)
        with (
            torch.autocast(
                self.device.type, self.autocast_dtype, enabled=self.autocast_dtype is not None
            ),
            sdpa_kernel(self.attention_kernels),
        ):
            hidden_BTW = self.network.decode(self.network.encode(source_BS), source_BS, input_BT)
            # Padding is left out before the projection, which costs more than the rest together.
            real_BT = output_BT != self.special.pad
            logits_NV = self.network.project(hidden_BTW[real_BT])
        smoothing = self.recipe.optimisation.label_smoothing
        return smoothed_loss(logits_NV, output_BT[real_BT], smoothing, self.special.pad)

    @property
    def _out_of_patience(self) -> bool:
        patience = self.recipe.budget.patience
        return patience is not None and self.progress.validations_without_gain >= patience

    def _validate(self, log: RunLog) -> Validation:
        result = validate(self.network, self.valid, self.tokenizer, self.device)
        log.write("valid", self.progress.step, **dataclasses.asdict(result))
        logger.info("step %d: %s", self.progress.step, result)
        if result.bleu > self.progress.best_bleu:
            self.progress.best_bleu = result.bleu
            self.progress.best_step = self.progress.step
            self.progress.validations_without_gain = 0
        else:
            self.progress.validations_without_gain += 1
        return result

    def _save(self) -> None:
        checkpoint.save(self.state_dict(), checkpoint.path_of(self.run.path, self.progress.step))
        checkpoint.prune(self.run.path, self.recipe.budget.keep_checkpoints)

    def _resume(self) -> None:
        found = checkpoint.checkpoints(self.run.path)
        if found:
            self.load_state_dict(checkpoint.load(found[-1]))
            logger.info("resuming %s after step %d", self.run.path, self.progress.step)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what the next steps compute."""
        return {
            "config": dataclasses.asdict(self.network.config),
            "recipe": self.recipe.to_dict(),
            "step": self.progress.step,
            "progress": dataclasses.asdict(self.progress),
            "cursor": dataclasses.asdict(self.loader.cursor),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": {
                "torch": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state_all() if self.device.type == "cuda" else [],
            },
        }

    def load_state_dict(self, document: dict[str, Any]) -> None:
        if document["config"] != dataclasses.asdict(self.network.config):
            raise checkpoint.CheckpointError(
                f"the checkpoint in {self.run.path} is of another network than the recipe "
                f"{self.recipe.name!r} describes; choose another run directory"
            )
        self._require_same_run(Recipe.from_dict(document["recipe"]))
        self.progress = Progress(**document["progress"])
        self.loader.cursor = Cursor(**document["cursor"])
        self.network.load_state_dict(document["network"])
        self.optimiser.load_state_dict(document["optimiser"])
        torch.set_rng_state(document["random"]["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state_all(document["random"]["cuda"])

    def _require_same_run(self, saved: Recipe) -> None:
        """A run may be given another budget; anything else would make it neither old nor new."""
        changed = [name for name in _DECIDING if getattr(saved, name) != getattr(self.recipe, name)]
        if changed:
            raise checkpoint.CheckpointError(
                f"the checkpoint in {self.run.path} was trained with another "
                f"{' and another '.join(changed)} than the recipe {self.recipe.name!r} has; "
                "choose another directory with --runs, or delete the checkpoints"
            )


def _require_prepared_for(recipe: Recipe, run: RunDirectory) -> None:
    prepared = Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8")))
    if (prepared.data, prepared.vocabulary) != (recipe.data, recipe.vocabulary):
        raise InvalidRecipe(
            f"{run.path} was prepared with other data or another vocabulary than {recipe.name!r} "
            "has; run `python -m training prepare` again, or choose another directory with --runs"
        )


def _autocast_dtype(recipe: Recipe, device: torch.device) -> torch.dtype | None:
    wanted = recipe.optimisation.precision
    if wanted == "fp32":
        return None
    if wanted == "bf16" or _multiplies_bf16(device):
        return torch.bfloat16
    return None


def _multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for bf16, rather than an emulation."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        return bool(torch.cpu.get_capabilities().get("avx512_bf16", False))
    return False
