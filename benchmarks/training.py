"""Speed and memory of a training step, compared with a plain loop on ``nn.Transformer``.

    python -m benchmarks.training [--sizes small base big] [--rounds 5] [--steps 10] [--full]

Both loops train the same network on the same pairs with the same token budget. They alternate, so
that disturbances affect both; a round's ratio is of consecutive runs. Speed counts tokens without
padding, of source and target together. Lengths are drawn like those of news (a log-normal
distribution with a mean of 27 pieces), or are those of a prepared run, with ``--run``.

With ``--full`` a separate process takes one step of each size, as the recipe has it and with
activation checkpointing, to measure peak memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.plain_training import PlainLoop
from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.config import TransformerConfig
from models.transformer.transformer import build
from service.runtime import processor
from training import device as devices
from training.data.batching import BatchLoader
from training.data.portions import Amount, PortionLoader
from training.data.prefetch import Prefetcher
from training.data.shards import Shards
from training.loop.distributed import own_device
from training.loop.execution import Execution
from training.loop.learner import Learner
from training.loop.throughput import training_flops
from training.recipe import Optimisation
from training.recipes import recipe_named

PAIRS = 40_000
LONGEST = 120
RATE = 1e-4


@dataclass(frozen=True, slots=True)
class Size:
    config: TransformerConfig
    tokens: int
    """Padded tokens of the longer side in a batch, on CUDA."""
    tokens_on_cpu: int


def _network_of(name: str) -> TransformerConfig:
    recipe = recipe_named(name)
    return recipe.network.config(recipe.vocabulary.size)


SIZES = {
    "small": Size(_network_of("multi30k-de-en"), 16_000, 2_000),
    "base": Size(_network_of("paper-base-en-de"), 25_000, 1_000),
    "big": Size(_network_of("paper-big-en-de"), 25_000, 500),
}
"""Networks of the Multi30k recipes, and the paper's two."""


@dataclass(frozen=True, slots=True)
class Lap:
    tokens_per_second: float
    utilisation: float | None
    step_memory: int | None
    """CUDA bytes of a step beyond weights and optimiser state."""


@dataclass(frozen=True, slots=True)
class PairedSpeed:
    size: str
    tokens_per_batch: int
    precision: str
    ours: Lap
    plain: Lap
    """Each the median over all rounds."""
    ratio: float
    """Our speed divided by the plain loop's: median, least and greatest over all rounds."""
    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Step:
    size: str
    tokens_per_batch: int
    parameters: int
    activation_checkpointing: bool
    seconds: float
    """Duration of the second step; the first one allocates memory."""
    memory: int
    """Peak bytes: allocated on CUDA, or of the whole process on a CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    device = own_device(torch.device(options.device))
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as directory:
        pairs = [
            _pair(name, device, options, _shards(name, options, Path(directory) / name))
            for name in options.sizes
            if options.rounds
        ]
        steps = _steps(options, Path(directory)) if options.full else []
    _print(pairs, steps)
    known = {"device": _name_of(device), "torch": torch.__version__}
    document = {
        **known,
        "execution": asdict(_execution(options, device)),
        "pairs": [asdict(pair) for pair in pairs],
        "steps": [asdict(step) for step in steps],
    }
    print(json.dumps(document))
    return 0


def _pair(
    name: str, device: torch.device, options: argparse.Namespace, shards: Shards
) -> PairedSpeed:
    size = SIZES[name]
    budget = _tokens(size, device, options)
    execution = _execution(options, device)
    optimisation = Optimisation(tokens_per_batch=budget, precision=options.precision)
    learner = Learner(
        build(size.config, 1).to(device), optimisation, lambda _: RATE, device, execution
    )
    dtype = learner.autocast_dtype
    loop = PlainLoop(size.config, device, dtype, RATE)
    batches = BatchLoader(shards, SPECIAL_IDS, budget, 1, execution.length_multiple)
    plain = PortionLoader(BatchLoader(shards, SPECIAL_IDS, budget, 1), 1)
    laps: tuple[list[Lap], list[Lap]] = ([], [])
    with Prefetcher(PortionLoader(batches, 1), execution.prefetch, device) as portions:

        def our_step() -> Amount:
            portion = portions.next()
            learner.learn(portion, 1)
            return portion.amount

        def plain_step() -> Amount:
            portion = plain.next()
            loop.step(portion.batches[0])
            return portion.amount

        for step in (our_step, plain_step):
            _lap(step, size.config, device, options.warm_up)
        for number in range(options.rounds):
            # The order alternates, so that neither loop always runs second.
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for i in order:
                laps[i].append(_lap((our_step, plain_step)[i], size.config, device, options.steps))
            print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr)
    ratios = [a.tokens_per_second / b.tokens_per_second for a, b in zip(*laps, strict=True)]
    return PairedSpeed(
        name,
        budget,
        "fp32" if dtype is None else "bf16",
        _median(laps[0]),
        _median(laps[1]),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
    )


def _lap(
    step: Callable[[], Amount], config: TransformerConfig, device: torch.device, count: int
) -> Lap:
    cuda = device.type == "cuda"
    before = 0
    if cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    started = time.perf_counter()
    amount = sum((step() for _ in range(count)), Amount())
    if cuda:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - started
    peak = devices.peak_of(device)
    rate = training_flops(config, amount) / seconds
    return Lap(
        (amount.source_tokens + amount.target_tokens) / seconds,
        None if peak is None else rate / peak,
        torch.cuda.max_memory_allocated(device) - before if cuda else None,
    )


def _median(laps: Sequence[Lap]) -> Lap:
    """The lap of median speed."""
    return sorted(laps, key=lambda lap: lap.tokens_per_second)[len(laps) // 2]


def _steps(options: argparse.Namespace, directory: Path) -> list[Step]:
    # A process's peak memory cannot be reset, so each measurement has its own process.
    context = multiprocessing.get_context("spawn")
    found = []
    for name in options.sizes:
        for recomputing in (False, True):
            with context.Pool(1) as pool:
                found.append(pool.apply(_step, (name, recomputing, options, directory / name)))
    return found


def _step(name: str, recomputing: bool, options: argparse.Namespace, directory: Path) -> Step:
    device = own_device(torch.device(options.device))
    if options.threads:
        torch.set_num_threads(options.threads)
    size = SIZES[name]
    budget = _tokens(size, device, options)
    execution = replace(
        _execution(options, device), activation_checkpointing=recomputing, compile=False
    )
    optimisation = Optimisation(tokens_per_batch=budget, precision=options.precision)
    network = build(size.config, 1).to(device)
    learner = Learner(network, optimisation, lambda _: RATE, device, execution)
    shards = _shards(name, options, directory)
    loader = PortionLoader(BatchLoader(shards, SPECIAL_IDS, budget, 1), 1)
    seconds = 0.0
    for number in (1, 2):
        started = time.perf_counter()
        learner.learn(loader.next(), number).read()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
    memory = devices.peak_memory(device)
    return Step(name, budget, network.num_parameters, recomputing, seconds, memory)


def _shards(name: str, options: argparse.Namespace, directory: Path) -> Shards:
    if options.run is not None:
        return Shards.open(options.run / "data" / "train")
    if directory.exists():
        return Shards.open(directory)
    rng = np.random.default_rng(1)
    vocabulary = SIZES[name].config.target_vocabulary
    source = rng.lognormal(3.15, 0.55, PAIRS)
    target = source * rng.lognormal(0.0, 0.15, PAIRS)
    lengths = [np.clip(side, 1, LONGEST).astype(int).tolist() for side in (source, target)]
    return Shards.write(
        directory,
        (
            tuple(rng.integers(4, vocabulary, length).tolist() for length in both)
            for both in zip(*lengths, strict=True)
        ),
    )


def _execution(options: argparse.Namespace, device: torch.device) -> Execution:
    chosen = Execution.default_for(device)
    if options.compile is not None:
        chosen = replace(chosen, compile=options.compile)
    if options.cuda_graphs:
        chosen = replace(chosen, cuda_graphs=True)
    if options.length_multiple is not None:
        chosen = replace(chosen, length_multiple=options.length_multiple)
    return chosen


def _tokens(size: Size, device: torch.device, options: argparse.Namespace) -> int:
    if options.tokens is not None:
        tokens: int = options.tokens
        return tokens
    return size.tokens if device.type == "cuda" else size.tokens_on_cpu


def _name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return processor.description()


def _print(pairs: Sequence[PairedSpeed], steps: Sequence[Step]) -> None:
    for pair in pairs:
        print(
            f"{pair.size:6} {pair.precision} {pair.tokens_per_batch:6} tokens a batch: ours "
            f"{_of(pair.ours)}, plain {_of(pair.plain)}, ratio {pair.ratio:.2f} "
            f"({pair.least:.2f} to {pair.greatest:.2f})"
        )
    for step in steps:
        kept = "recomputing" if step.activation_checkpointing else "keeping all"
        print(
            f"{step.size:6} {step.parameters / 1e6:.1f}M parameters, {step.tokens_per_batch:6} "
            f"tokens, {kept}: {step.seconds:.2f} s, {step.memory / 2**30:.2f} GiB"
        )


def _of(lap: Lap) -> str:
    known = f"{lap.tokens_per_second:,.0f} tokens/s"
    if lap.utilisation is not None:
        known += f", MFU {lap.utilisation:.1%}"
    if lap.step_memory is not None:
        known += f", {lap.step_memory / 2**30:.1f} GiB"
    return known


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description="Training steps, ours and a plain loop's."
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["small"])
    parser.add_argument("--rounds", type=int, default=5, help="0: no pairs")
    parser.add_argument("--steps", type=int, default=10, help="of each contender in a round")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the first round")
    parser.add_argument("--tokens", type=int, help="padded tokens of the longer side in a batch")
    parser.add_argument("--run", type=Path, help="a prepared run to take the pairs from")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
    parser.add_argument("--cuda-graphs", action="store_true")
    parser.add_argument("--length-multiple", type=int)
    parser.add_argument("--full", action="store_true", help="and a step of each size by itself")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
