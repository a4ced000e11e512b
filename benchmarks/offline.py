"""Offline throughput benchmark: target tokens per second of our engine and of CTranslate2.

    python -m benchmarks.offline [--full] [--cells PATTERN ...] [--pairs N] [--json FILE]

From token ids to token ids. Both engines have the same weights, sources, search, stop rule,
precision and threads, and alternate, A B A B; the ratio is the median over pairs of consecutive
runs. CTranslate2 runs with the best of its settings for each cell, found by a trial; our engine
runs with the service's defaults. A cell is named ``workload/precision/beam``, such as
``newstest/int8/4``. A star marks measurements that other processes disturbed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from benchmarks import machine
from benchmarks.base import CACHE, base_bundle
from benchmarks.contest import Cell, Contest, Result
from benchmarks.workloads import NAMES, workload
from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from service.runtime import processor
from training.data import default_data_directory
from training.data.corpus import CorpusError

QUICK = ("fixed-1/*", "fixed-32/*", "newstest/*", "multi30k/*")
COMMITTED = Path("bundles/general-de-en")
_HEADER = (
    f"{'cell':<22}{'dragoman':>10}{'ctranslate2':>13}  {'setting':<15}{'ratio':>6}  "
    f"{'lowest-highest':<15}{'same':>6}{'others':>8}"
)
Memories = dict[str, dict[str, machine.Memory | None]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    patterns = options.cells or (["*"] if options.full else QUICK)
    cells = [cell for cell in all_cells() if any(fnmatch(cell.name, p) for p in patterns)]
    if not cells:
        print(f"offline: no cell is named {' or '.join(patterns)}", file=sys.stderr)
        return 2
    threads = options.threads or processor.cores()
    print(f"{processor.description()}; {threads} threads; {options.pairs} pairs a cell\n")
    print(_HEADER, flush=True)
    results: list[Result] = []
    memories: Memories = {}

    def precision_and_model(cell: Cell) -> tuple[str, bool]:
        return cell.precision, cell.workload == "multi30k"

    for (precision, small), group in groupby(cells, precision_and_model):
        bundle = Bundle.open(COMMITTED) if small else base_bundle(options.cache)
        if precision not in bundle.manifest.precisions:
            print(f"{bundle.path} offers no {precision}: its cells are left out")
            continue
        with Contest(bundle, precision, threads, options.cache) as contest:
            for cell in group:
                try:
                    work = workload(cell.workload, bundle, options.data)
                except CorpusError as error:
                    print(f"{cell.name} is left out: {error}")
                    continue
                results.append(contest.measure(cell, work, options.pairs))
                print(_row(results[-1]), flush=True)
            memories |= contest.memories()
    _print_memories(memories)
    line = json.dumps(_record(threads, results, memories))
    print(line)
    if options.json:
        options.json.write_text(line + "\n", encoding="utf-8")
    return 0


def all_cells() -> Iterator[Cell]:
    """Every cell; cells with the same model and precision are consecutive."""
    precisions: tuple[Precision, ...] = ("int8", "fp32")
    for precision in precisions:
        for name in NAMES[:-1]:
            for beam_size in (4, 1):
                yield Cell(name, precision, beam_size)
    for beam_size in (4, 1):
        yield Cell("multi30k", "int8", beam_size)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=__doc__)
    parser.add_argument("--full", action="store_true", help="every cell, not only the quick ones")
    parser.add_argument("--cells", nargs="+", metavar="PATTERN", help="cells by name, */int8/4")
    parser.add_argument("--pairs", type=int, default=5, help="pairs that count, for each cell")
    parser.add_argument("--threads", type=int, default=0, help="of each engine; 0 is every core")
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--json", type=Path, help="write the last line here, too")
    return parser


def _row(result: Result) -> str:
    spread = f"{result.lowest_ratio:.2f}-{result.highest_ratio:.2f}"
    disturbed = "*" if result.others_cores > processor.QUIET_CORES else ""
    return (
        f"{result.cell:<22}{result.ours:>10.0f}{result.theirs:>13.0f}  {result.setting:<15}"
        f"{result.ratio:>6.2f}  {spread:<15}{result.same:>6.0%}{result.others_cores:>7.2f}"
        f"{disturbed}"
    )


def _print_memories(memories: Memories) -> None:
    print(f"\n{'resident memory, MB':<40}{'opened':>8}{'worked':>8}{'peak':>8}")
    for name, moments in memories.items():
        opened, worked = moments["opened"], moments["worked"]
        if opened is not None and worked is not None:
            sizes = (opened.current, worked.current, worked.peak)
            print(f"{name:<40}" + "".join(f"{size / 1e6:>8.0f}" for size in sizes))
    print()


def _record(threads: int, results: Sequence[Result], memories: Memories) -> dict[str, object]:
    return {
        "benchmark": "offline",
        "machine": processor.description(),
        "threads": threads,
        "versions": {name: version(name) for name in ("ctranslate2", "onnxruntime", "numpy")},
        "cells": [asdict(result) for result in results],
        "memory": {
            name: {moment: memory and asdict(memory) for moment, memory in moments.items()}
            for name, moments in memories.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
