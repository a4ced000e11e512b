"""``train`` command: trains on token shards, in one process or in those of ``torchrun``."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from training.commands.options import Job, device_of, positive

if TYPE_CHECKING:
    import torch

    from training.loop.distributed import World
    from training.loop.execution import Execution

TRACKERS = ("wandb", "mlflow")
HELP = "train to the end of the budget, or go on doing so"


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "execution", "How training runs; what it computes is in the recipe."
    )
    group.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="fuse kernels with torch.compile (default: on CUDA)",
    )
    group.add_argument(
        "--cuda-graphs",
        action="store_true",
        help="replay recorded kernel launches; pays for small networks",
    )
    group.add_argument(
        "--activation-checkpointing",
        action="store_true",
        help="keep only what enters each layer: a third more work, a fraction of the memory",
    )
    group.add_argument(
        "--length-multiple",
        type=positive,
        help="round lengths up to multiples of this, so that shapes are few; the same for all of "
        "a run (default: 4 on CUDA, 1 elsewhere)",
    )
    group.add_argument(
        "--prefetch", type=positive, help="steps that a thread keeps ready (default: 4)"
    )
    parser.add_argument(
        "--track",
        type=_tracker,
        choices=TRACKERS,
        help="show the run in Weights & Biases or MLflow, too; a resumed run continues there",
    )


def _tracker(name: str) -> str:
    spec = importlib.util.find_spec(name) if name in TRACKERS else None
    # A directory of the name, as wandb makes them, is no package: it has no origin.
    if name in TRACKERS and (spec is None or spec.origin is None):
        raise argparse.ArgumentTypeError(
            f"the package {name} is not installed; `pip install 'dragoman-translate[{name}]'` "
            "brings it"
        )
    return name


def execution_of(options: argparse.Namespace, device: torch.device) -> Execution:
    from training.loop.execution import Execution

    chosen = {
        "compile": options.compile,
        "cuda_graphs": options.cuda_graphs or None,
        "activation_checkpointing": options.activation_checkpointing or None,
        "length_multiple": options.length_multiple,
        "prefetch": options.prefetch,
    }
    named = {name: value for name, value in chosen.items() if value is not None}
    return replace(Execution.default_for(device), **named)


def perform(job: Job) -> None:
    from training.loop.distributed import join, leave, own_device
    from training.run_lock import locked

    device = own_device(device_of(job.options))
    execution = execution_of(job.options, device)
    world = join(device)
    # The first process alone writes into the run.
    lock = locked(job.run) if world.first else contextlib.nullcontext()
    try:
        with lock:
            _train(job, device, execution, world)
    finally:
        leave(world)


def _train(job: Job, device: torch.device, execution: Execution, world: World) -> None:
    from training.loop.trainer import Trainer

    if not world.first:
        logging.getLogger().setLevel(logging.WARNING)
    options = job.options
    trainer = Trainer(job.recipe, job.run, device, execution, world, options.bundles, options.track)
    progress = trainer.train()
    if world.first:
        metric, corpus = progress.judged
        shown = {"bleu": "BLEU {:.1f}", "chrf": "chrF {:.1f}", "loss": "loss {:.3f}"}[metric]
        best = (
            f"; {shown.format(abs(progress.best))} on {corpus or 'the validation set'} at step "
            f"{progress.best_step:,}"
            if progress.best_step
            else ""
        )
        speed = trainer.speed
        took = f"; {speed}" if speed.tokens_per_second else ", before this command"
        print(f"trained {job.run.path} for {progress.step:,} steps{best}{took}")
