"""The training loop: steps, validation and checkpoints of a run, resumed bit for bit after a kill.

``Learner`` executes a step, ``World`` the communication with other processes.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from models.bundle.manifest import SpecialIds
from models.transformer.transformer import Transformer, build
from training import checkpoint
from training import device as devices
from training.data.batching import BatchLoader, Cursor
from training.data.portions import Division, PortionLoader
from training.data.prefetch import Prefetcher
from training.data.shards import Shards
from training.data.splitting import Splitter
from training.initial.pretrained import unwritable_ids
from training.initial.start import start_from
from training.loop.checkpoint_writer import CheckpointWriter
from training.loop.distributed import World
from training.loop.event_log import RunLog, SilentLog
from training.loop.execution import Execution
from training.loop.guidance import guide_of
from training.loop.learner import Learner, Outcome
from training.loop.progress import Progress
from training.loop.resuming import (
    checkpoint_to_continue,
    random_state,
    require_same_run,
    require_whole,
    restore_random_state,
    trained_on,
    with_precision,
)
from training.loop.schedule import schedule_of, smoothing_of, stable_steps
from training.loop.throughput import Meter, Speed
from training.loop.tracking import Tracking
from training.loop.validation import Validation, Validator
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_FEW_TOKENS = 16_000
"""Padded tokens of a pass below which launching kernels may take longer than computing them."""
_SECONDS_PER_LINE = 60.0
"""Seconds between two lines about progress in the log."""


class Trainer:
    """Owns the network, the learner, the place in the data and the random state."""

    def __init__(
        self,
        recipe: Recipe,
        run: RunDirectory,
        device: torch.device,
        execution: Execution | None = None,
        world: World | None = None,
        bundles: Path = Path("bundles"),
        track: str | None = None,
    ) -> None:
        """``bundles`` is where ``recipe.initial`` may name a bundle, ``track`` a tracker."""
        self.run = run
        self.track = track
        self.device = device
        self.execution = Execution() if execution is None else execution
        self.world = World() if world is None else world
        self.bundles = bundles
        # Shards are opened before tokenizers: their absence says that the recipe has not been
        # prepared.
        train = Shards.open(run.shards("train"))
        _require_prepared_for(recipe, run)
        self.tokenizers = run.tokenizers()
        self.special: SpecialIds = self.tokenizers.target.special_ids
        self.validator = Validator(run, recipe.data, self.tokenizers, device, self.world)
        batches = BatchLoader(
            train,
            self.special,
            recipe.optimisation.tokens_per_batch,
            recipe.seed,
            self.execution.length_multiple,
            recipe.network.max_length,
        )
        in_decay = recipe.optimisation.decay_accumulate
        self.loader = PortionLoader(
            batches,
            recipe.optimisation.accumulate,
            self.world.rank,
            self.world.size,
            later=None if in_decay is None else (stable_steps(recipe), in_decay),
        )
        self.cursor = Cursor()
        """Position in the data of the next step; the loader itself may be ahead."""
        config = recipe.network.config(
            self.tokenizers.source.vocabulary_size, self.tokenizers.target.vocabulary_size
        )
        if self.world.first:
            recipe = with_precision(recipe, run, config, device)
        self.recipe = self.world.broadcast(recipe)
        """Recipe that checkpoints record, the precision included."""
        optimisation = self.recipe.optimisation
        self.network = build(config, recipe.seed).to(device)
        self.schedule = schedule_of(recipe)
        guided = bool(optimisation.guided_alignment)
        self.learner = Learner(
            self.network,
            optimisation,
            self.schedule,
            device,
            self.execution,
            self.world,
            smoothing=smoothing_of(recipe),
            guide=guide_of(run, device, self.world) if guided else None,
        )
        self.average: Transformer | None = None
        """The moving average of the network, if the recipe has one and training has begun."""
        self.progress = Progress(judged=self._judged)
        self._next_line = 0.0
        """Time of the next line about progress, where no bar is shown."""
        peak = devices.peak_of(device)
        passes = 2 if optimisation.r_drop else 1
        self.meter = Meter(config, None if peak is None else peak * self.world.size, passes)
        if self.world.rank:
            # All processes begin with the same weights; each has its own dropout.
            self._draw_apart(step=0)

    def train(self) -> Progress:
        """Train to the end of the budget, from the last checkpoint if there is one.

        Raises ``Diverged``, ``OutOfMemory``, ``CheckpointError``, ``InvalidRecipe``,
        ``CannotTrack`` and ``CannotWrite``; the last checkpoint is whole in any case.
        """
        self._begin()
        steps = self.recipe.budget.steps
        first, step = self.world.first, self.progress.step
        log = self._log() if first else SilentLog()
        self._next_line = time.monotonic() + _SECONDS_PER_LINE
        unread: deque[Outcome] = deque()
        with (
            log,
            tqdm(
                total=steps,
                initial=step,
                unit="step",
                dynamic_ncols=True,
                # None shows it on a terminal only.
                disable=None if first else True,
            ) as bar,
            Prefetcher(self.loader, self.execution.prefetch, self.device) as portions,
            # Ended before the log is closed, which it flushes.
            CheckpointWriter(log, self.recipe.budget.keep_checkpoints) as writer,
        ):
            while not self._finished:
                writer.check()
                started, waited = time.perf_counter(), portions.waited
                portion = portions.next()
                unread.append(self.learner.learn(portion, self.progress.step + 1))
                self._advance(unread[-1])
                validates, saves = self._due()
                # Where computation lags behind, a step is read when the next has been launched;
                # nothing is kept of one that has not been read.
                most = 1 if self.learner.lags and not (validates or saves) else 0
                while len(unread) > most:
                    self._record(unread.popleft(), log, bar)
                now = time.perf_counter()
                self.meter.lap(portion.amount, now - started, portions.waited - waited)
                bar.update()
                if validates:
                    self._validate(log)
                    # Patience may have run out.
                    _, saves = self._due()
                if saves:
                    self._record_speed(log)
                    self._save(writer)
        # No process ends before the last checkpoint is written.
        self.world.broadcast(None)
        self.loader.cursor, self.loader.steps = self.cursor, self.progress.step
        return self.progress

    def _log(self) -> RunLog:
        trackers = [Tracking(self.track, self.recipe, self.run)] if self.track else []
        return RunLog(self.run.log, self.progress.step, trackers)

    @property
    def speed(self) -> Speed:
        """Speed over all steps of this process, validation and saving excluded."""
        return self.meter.total()

    def _advance(self, outcome: Outcome) -> None:
        self.progress.step = outcome.step
        self.progress.tokens += outcome.portion.amount.target_tokens
        self.cursor = outcome.portion.end
        self._update_average()

    @torch.no_grad()
    def _update_average(self) -> None:
        wanted, step = self.recipe.optimisation.moving_average, self.progress.step
        if not wanted:
            return
        kept = min(wanted, (1 + step) / (10 + step))
        if self.average is None:
            self.average = copy.deepcopy(self.network).requires_grad_(False)
        else:
            torch._foreach_lerp_(
                [*self.average.parameters()], [*self.network.parameters()], 1.0 - kept
            )

    @property
    def _judged(self) -> tuple[str, str | None]:
        """The recipe's value of ``Progress.judged``."""
        return self.recipe.budget.judged_by, self.recipe.budget.judged_on

    @property
    def _finished(self) -> bool:
        budget = self.recipe.budget
        without_gain = self.progress.validations_without_gain
        out_of_patience = budget.patience is not None and without_gain >= budget.patience
        return self.progress.step >= budget.steps or out_of_patience

    def _due(self) -> tuple[bool, bool]:
        """Whether to validate and whether to save after the step just taken."""
        budget, step = self.recipe.budget, self.progress.step
        validates = step % budget.validate_every == 0 or step >= budget.steps
        saves = step % (budget.save_every or budget.validate_every) == 0 or self._finished
        return validates, saves or step == stable_steps(self.recipe)

    def _record(self, outcome: Outcome, log: RunLog | SilentLog, bar: tqdm[Any]) -> None:
        loss, norm = outcome.read()
        rate = self.schedule(outcome.step)
        log.write("train", outcome.step, loss=loss, learning_rate=rate, gradient_norm=norm)
        speed = self.meter.recent()
        shown = {"loss": f"{loss:.3f}", "tokens_per_s": f"{speed.tokens_per_second:.0f}"}
        if speed.utilisation is not None:
            shown["mfu"] = f"{speed.utilisation:.0%}"
        bar.set_postfix(shown, refresh=False)
        if bar.disable and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_PER_LINE
            logger.info("step %d of %d: loss %.3f, %s", outcome.step, bar.total, loss, speed)

    def _record_speed(self, log: RunLog | SilentLog) -> None:
        known = dataclasses.asdict(self.meter.since_last())
        values = {name: value for name, value in known.items() if value is not None}
        memory = devices.peak_memory(self.device)
        log.write("speed", self.progress.step, **values, peak_memory=memory)

    def _validate(self, log: RunLog | SilentLog) -> None:
        network = self.average or self.network
        step = self.progress.step
        for name in (None, *self.validator.others):
            label = "" if name is None else f" {name}"
            result = self.validator.validate(network, name)
            if result is None:
                continue
            log.write(f"valid{label}", step, **result.scores)
            logger.info("step %d%s: %s", step, label, result)
            for i, sample in enumerate(result.samples):
                log.write(f"sample {i}{label}", step, **dataclasses.asdict(sample))
            for sample in {each.direction: each for each in result.samples}.values():
                logger.info("%s", sample)
            if name == self.recipe.budget.judged_on:
                self._judge(result)
        # Whether it goes on is the first process's decision.
        self.progress = self.world.broadcast(self.progress)

    def _judge(self, result: Validation) -> None:
        value = result.judged_by(self.recipe.budget.judged_by)
        self.progress.judge(value)
        # Whether this step is saved depends on patience.
        _, saves = self._due()
        if saves:
            self.progress.validated[self.progress.step] = value

    def _save(self, writer: CheckpointWriter) -> None:
        document = self.state_dict()
        # Other processes go on at once.
        if self.world.first:
            recipe, progress = self.recipe, self.progress
            best = progress.best_steps(recipe.average if recipe.average_of == "best" else 1)
            spared = {stable_steps(recipe), *best}
            writer.write(document, checkpoint.path_of(self.run.path, progress.step), spared)

    def _begin(self) -> None:
        if self.world.first:
            self._log_division()
            require_whole(self.run)
            checkpoint.sweep(self.run.path)
        found = self.world.broadcast(checkpoint.checkpoints(self.run.path))
        if found:
            last = checkpoint_to_continue(found, self.recipe)
            self.load_state_dict(checkpoint.load(last))
            # Every process has chosen before the first one deletes.
            self.world.broadcast(None)
            if self.world.first and last != found[-1]:
                logger.info("the decay after step %d is taken back", self.progress.step)
                checkpoint.remove_after(last)
            logger.info("resuming %s after step %d", self.run.path, self.progress.step)
        elif self.recipe.initial is not None:
            start_from(self.recipe, self.run, self.network, self.bundles)
        if rate := self.recipe.optimisation.split_pieces:
            # The weights say which ids are unwritable, also where the initial bundle is gone.
            unwritable = unwritable_ids(self.network.state_dict())
            self.loader.splitter = Splitter(self.tokenizers, rate, unwritable)

    def _log_division(self) -> None:
        """Log what a step has, and a process of it: the recipe's step is that of all processes."""
        optimisation, world = self.recipe.optimisation, self.world.size
        tokens, batches = optimisation.tokens_per_batch, optimisation.accumulate
        division = Division(batches, world)
        of_pass = tokens // division.members
        logger.info(
            "a step of %s padded tokens: %d × %s; %d %s, each with %d × %s",
            *(f"{tokens * batches:,}", batches, f"{tokens:,}"),
            *(world, "process" if world == 1 else "processes", division.passes, f"{of_pass:,}"),
        )
        if self.device.type == "cuda" and of_pass < _FEW_TOKENS:
            logger.warning(
                "%s tokens a pass may leave a GPU waiting for launches; larger steps fill it, but "
                "change what is computed: --set optimisation.accumulate=%d for steps of %s",
                *(f"{of_pass:,}", batches * world, f"{tokens * batches * world:,}"),
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what the next steps compute; all processes ask together.

        Tensors are those that training changes; ``checkpoint.snapshot`` copies them.
        """
        average = {} if self.average is None else {"average": self.average.state_dict()}
        return {
            "config": dataclasses.asdict(self.network.config),
            "recipe": self.recipe.to_dict(),
            **trained_on(self.run),
            "length_multiple": self.execution.length_multiple,
            "step": self.progress.step,
            "progress": dataclasses.asdict(self.progress),
            "cursor": dataclasses.asdict(self.cursor),
            "network": self.network.state_dict(),
            **average,
            "optimiser": self.learner.optimiser.state_dict(),
            "random": self.world.gathered(random_state(self.device)),
        }

    def load_state_dict(self, document: dict[str, Any]) -> None:
        """Go on from ``document``; with another number of processes, dropout alone is another."""
        require_same_run(document, self.recipe, self.run, self.network, self.execution)
        self.progress = Progress.of(document)
        if self.progress.judged != self._judged:
            self.progress = Progress(self.progress.step, self.progress.tokens, judged=self._judged)
        self.cursor = self.loader.cursor = Cursor(**document["cursor"])
        self.loader.steps = self.progress.step
        self.network.load_state_dict(document["network"])
        if self.recipe.optimisation.moving_average:
            self.average = copy.deepcopy(self.network).requires_grad_(False)
            self.average.load_state_dict(document.get("average", document["network"]))
        self.learner.optimiser.load_state_dict(document["optimiser"])
        random = document["random"]
        if len(random) != self.world.size:
            logger.info("trained by %d processes, goes on with %d", len(random), self.world.size)
        if self.world.rank < len(random):
            restore_random_state(random[self.world.rank], self.device)
        else:
            self._draw_apart(self.progress.step)

    def _draw_apart(self, step: int) -> None:
        """Random numbers that no other process draws, nor this one at another step."""
        torch.manual_seed(hash((self.recipe.seed, self.world.rank, step)))


def _require_prepared_for(recipe: Recipe, run: RunDirectory) -> None:
    prepared = Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8")))
    if (prepared.data, prepared.vocabulary) != (recipe.data, recipe.vocabulary):
        raise InvalidRecipe(
            f"{run.path} was prepared with other data or another vocabulary than {recipe.name!r} "
            "has; run `python -m training prepare` again, or choose another directory with --runs"
        )
