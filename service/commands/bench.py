"""``dragoman bench``: measures the speed of bundles here and keeps the fastest variants."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle
from service.catalogue.loaded_model import LoadedModel
from service.commands.command import DONE, FAILED, GET_ONE, CommandFailed, add_bundles, settings_of
from service.loading.choices import Chooser
from service.loading.discovery import discover
from service.loading.loader import load_model, place
from service.observability.logging import configure
from service.observability.metrics import Metrics
from service.runtime import processor
from service.runtime.measuring import GENEROUS
from service.runtime.onnx import OnnxBackend
from service.runtime.sessions import available_device
from service.runtime.variants import Choice, Variant, fastest
from service.server.process import prepare_process
from service.settings import Settings
from service.translation.decoding import NO_OVERRIDES

SENTENCES = (1, 8, 32, 64)
_SECONDS = 1.5
_SLOTS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="a bundle (default: all)")
    add_bundles(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    configure(settings.log_level, settings.log_format)
    prepare_process()
    found = {directory.name: directory.path for directory in discover(settings.bundles)}
    if not found:
        raise CommandFailed(f"{settings.bundles} holds no bundle; {GET_ONE}")
    if missing := [name for name in options.names if name not in found]:
        raise CommandFailed(
            f"{settings.bundles} has no bundle {', '.join(missing)}; it has {', '.join(found)}"
        )
    print(processor.description())
    broken = 0
    for name in options.names or found:
        try:
            _measure(found[name], settings)
        except InvalidBundle as error:
            broken += 1
            print(f"\n{name}: {error}")
    return FAILED if broken else DONE


def _measure(path: Path, settings: Settings) -> None:
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    device, precision = place(manifest, settings, available_device(settings.device))
    print(f"\n{manifest.name} in {precision} on {device}, beam {manifest.decoding.beam_size}")
    if device == "cpu":
        chooser = Chooser(manifest, precision, settings.state_directory)
        OnnxBackend.load(
            bundle.in_memory(precision),
            precision,
            slots=_SLOTS,
            rows_per_slot=manifest.decoding.beam_size,
            threads=settings.threads,
            choose=partial(_choose, chooser),
        ).close()
    if manifest.examples:
        asyncio.run(_print_speeds(path, settings))
    else:
        print("no speeds: the bundle has no example sentences; models add --calibrate adds some")


def _choose(chooser: Chooser, backend: OnnxBackend, usual: Variant) -> Choice:
    """Measure every variant, print the times, and keep the fastest if the machine was quiet."""
    times, _, others = processor.timed(lambda: chooser.times(backend, usual, GENEROUS))
    choice = fastest(usual, times)
    _print_times(times, choice)
    if others is not None and others > processor.QUIET_CORES:
        print(f"not kept: other programs used {others:.1f} cores meanwhile")
    else:
        chooser.keep(usual, choice)
    return choice


def _print_times(times: Mapping[int, Mapping[Variant, float]], choice: Choice) -> None:
    if not times:
        print("it has one variant here")
        return
    variants = list(next(iter(times.values())))
    print("\nmilliseconds of a step; * runs")
    width = max(len(str(variant)) for variant in variants) + 3
    print("rows" + "".join(f"{variant!s:>{width}}" for variant in variants))
    for rows, taken in times.items():
        shown = (
            f"{1000 * taken[variant]:.2f}{'*' if choice.of(rows) == variant else ' '}"
            for variant in variants
        )
        print(f"{rows:4}" + "".join(f"{each:>{width}}" for each in shown))
    print(f"chosen: {choice}")


async def _print_speeds(path: Path, settings: Settings) -> None:
    """Measure batches of the bundle's examples."""
    model = await load_model(path, settings, Metrics().observer)
    # Loading logs lines, which must not be inside the table.
    print("\nsentences  tokens/s  ms a sentence")
    try:
        for sentences in SENTENCES:
            tokens, seconds = await _speed(model, sentences)
            print(f"{sentences:9}{tokens / seconds:10,.0f}{1000 * seconds / sentences:15.1f}")
    finally:
        await model.close()


async def _speed(model: LoadedModel, sentences: int) -> tuple[int, float]:
    """Target tokens and seconds of the fastest batch of so many sentences."""
    manifest = model.manifest
    calls = []
    for example in islice(cycle(manifest.examples), sentences):
        direction = model.directed[example.direction].direction
        source = example.source_ids
        options = NO_OVERRIDES.resolve(
            manifest.decoding, manifest.limits, len(source), direction=direction
        )
        calls.append((source, options))
    best = (0, float("inf"))
    started = time.perf_counter()
    while not best[0] or time.perf_counter() - started < _SECONDS:
        before = time.perf_counter()
        decoded = await asyncio.gather(*(model.engine.decode(*call) for call in calls))
        seconds = time.perf_counter() - before
        tokens = sum(len(each.hypotheses[0].token_ids) + 1 for each in decoded)
        best = min(best, (tokens, seconds), key=lambda each: each[1])
    return best
