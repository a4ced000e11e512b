"""GPU benchmark: one program for the first ten minutes on a machine.

    python -m benchmarks.gpu [--record FILE] [--bundle DIRECTORY] [--stages NAME ...]

Stages in this order, each in a process of its own and with a time limit; after a failure the next
one begins. Run ``--stages prepare`` before a machine is held, if it costs something.

prepare   write the base network, its translations in fp32, and CTranslate2's model of it
usable    GPUs, driver, versions, free memory; a model loaded as the service does
parity    a step and 64 translations against fp32 on the CPU, in all four ways of decoding
ramp      memory while the sentences grow from 1 to the most
speed     the milliseconds of an encode and of a step by events, the host's part, the roofline
threads   searches of both kinds, attention and reloads at once, with captures
arrivals  sentences of a news test's lengths that take free slots
peers     CTranslate2 and PyTorch on the same GPU
profile   kernels of a step by PyTorch's profiler

Each result is printed when it is known and appended to ``--record`` as a line of JSON.
``--device cpu`` runs the stages that a CPU has.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import gpu_measures as measures
from benchmarks.base import CACHE
from benchmarks.gpu_measures import SENTENCES, TOGETHER_SECONDS, Measured, note

STAGES: dict[str, tuple[Callable[[Measured], None], int]] = {
    "prepare": (measures.prepare, 900),
    "usable": (measures.usable, 120),
    "parity": (measures.parity, 120),
    "ramp": (measures.ramp, 90),
    "speed": (measures.speed, 180),
    "threads": (measures.threads, 90),
    "arrivals": (measures.arrivals, 120),
    "peers": (measures.peers, 120),
    "profile": (measures.profile, 90),
}
"""Function of each stage, and its limit in seconds."""
ON_CPU = ("prepare", "parity", "speed", "arrivals")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.stage:
        stage, _ = STAGES[options.stage]
        stage(
            Measured(
                stage=options.stage,
                record=options.record,
                bundle_path=options.bundle,
                cache=options.cache,
                device=options.device,
                sentences=tuple(options.sentences),
                together_seconds=options.together,
            )
        )
        return 0
    given = list(sys.argv[1:] if arguments is None else arguments)
    failed = 0
    for name in options.stages:
        if options.device == "cpu" and name not in ON_CPU:
            continue
        failed += not _ran(name, given, options.record)
    return 1 if failed else 0


def _ran(stage: str, given: list[str], record: Path | None) -> bool:
    """Run a stage in a process of its own; notes how long it took, or how it failed."""
    _, limit = STAGES[stage]
    command = [sys.executable, "-m", "benchmarks.gpu", *given, "--stage", stage]
    started = time.perf_counter()
    try:
        code = subprocess.run(command, timeout=limit, check=False).returncode
        outcome = "" if code == 0 else f"exit code {code}"
    except subprocess.TimeoutExpired:
        outcome = f"not done in {limit} s"
    seconds = time.perf_counter() - started
    if outcome:
        note(record, stage, "failed", outcome=outcome, seconds=seconds)
    else:
        note(record, stage, "done", seconds=seconds)
    return not outcome


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bundle", type=Path, help="a bundle with fp16 (default: the base network)"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sentences", type=int, nargs="+", default=SENTENCES)
    parser.add_argument(
        "--together",
        type=float,
        default=TOGETHER_SECONDS,
        metavar="SECONDS",
        help="length of `threads`",
    )
    parser.add_argument("--stages", choices=list(STAGES), nargs="+", default=list(STAGES))
    parser.add_argument("--stage", choices=list(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help="file that gets a line of JSON for each result")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
