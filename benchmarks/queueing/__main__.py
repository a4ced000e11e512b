"""``python -m benchmarks.queueing``: validates the simulation here, or plans replicas with it."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine
from benchmarks.queueing.assumed import ABOUT, assumed_gpu
from benchmarks.queueing.batch import Shape
from benchmarks.queueing.fleet import ROUTINGS, Impossible, Site, enough_requests, needed, simulate
from benchmarks.queueing.record import RECORD, RecordError, SiteRecord, read, write
from benchmarks.queueing.validation import PERCENTILES, Compared, Measuring, Protocol, Validation
from benchmarks.queueing.watched import watching
from benchmarks.queueing.workload import measured_workload
from models.bundle.bundle import Bundle
from training.data.corpus import default_data_directory

WITHIN = 0.2
"""Accepted relative error of a prediction."""
_LAW = (1, 10, 100, 1000)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _validate(options) if options.command == "validate" else _plan(options)
    except (RecordError, Impossible) as error:
        print(f"queueing: {error}", file=sys.stderr)
        return 2


def _validate(options: argparse.Namespace) -> int:
    bundle = Bundle.open(options.bundle)
    protocol = Protocol(tuple(options.loads), options.rounds, options.seconds)
    if not machine.wait_until_quiet(20):
        print("others use this machine; it will be noisy", file=sys.stderr)
    workload = measured_workload(bundle, "int8", options.data)
    shape = Shape(beam_size=bundle.manifest.decoding.beam_size)
    about = f"{machine.description()}; {bundle.manifest.name}, int8, {workload.name}"
    with watching(bundle, "int8") as service:
        print(f"{about}; service on core {service.core} alone", flush=True)
        if not service.alone:
            print("this machine has one core, which clients take from the service")
        validation = Measuring(service, workload, protocol, _say).validate(shape)
    site = Site(shape, validation.fit.costs, workload.lengths, one_core=True)
    write(options.record, SiteRecord.of(site, about))
    _print_validation(validation)
    print(json.dumps({"benchmark": "queueing", "about": about} | asdict(validation)))
    passed = all(compared.worst <= WITHIN for compared in validation.compared)
    return 1 if options.check and not passed else 0


def _print_validation(validation: Validation) -> None:
    fit = validation.fit
    costs = {name: f"{value * 1e6:.0f}" for name, value in asdict(fit.costs).items()}
    print("\ncosts, µs: " + ", ".join(f"{name} {value}" for name, value in costs.items()))
    print(f"error of the fit: engine {fit.error:.1%}, event loop {fit.loop_error:.1%}")
    print(f"capacity: {validation.capacity:.0f} sentences a second\n")
    print(
        f"{'load':<6}{'rate':>7}{'requests':>10}{'':>6}{'measured':>10}{'predicted':>11}"
        f"{'ratio':>7}{'by round':>13}{'blind':>7}{'busy':>7}"
    )
    for compared in validation.compared:
        _print_compared(compared)
    passed = all(compared.worst <= WITHIN for compared in validation.compared)
    print("\nof each percentile the median over the rounds; blind is the ratio with costs measured")
    print("before and after instead of at the moment, busy the same of processor time")
    print(f"p50 and p99 within {WITHIN:.0%} at every load: {'yes' if passed else 'NO'}")


def _print_compared(compared: Compared) -> None:
    head = f"{compared.load:<6.0%}{compared.rate:>5.0f}/s{compared.requests:>10}"
    for name in PERCENTILES:
        low, high = compared.spread[name]
        print(
            f"{head:<23}{name:>6}{compared.measured[name] * 1e3:>7.1f} ms"
            f"{compared.predicted[name] * 1e3:>8.1f} ms{compared.ratio(name):>7.2f}"
            f"{f'{low:.2f}–{high:.2f}':>13}{compared.blind[name] / compared.measured[name]:>7.2f}"
            f"{compared.busy:>7.2f}"
        )
        head = ""


def _plan(options: argparse.Namespace) -> int:
    record = read(options.record)
    site, about = record.site(), record.about
    if options.assume_gpu:
        site, about = assumed_gpu(site.costs), ABOUT
    most = site.capacity
    print(about)
    print(
        f"one service: up to {most:.0f} sentences a second; its event loop alone "
        f"{site.loop_capacity:.0f}, its engine alone {site.engine_capacity:.0f}"
    )
    if options.law:
        _print_law(site, most)
        return 0
    print(f"\n{options.rate:.0f} a second, 99 % within {options.p99 * 1e3:.0f} ms")
    print(f"{'routing':<10}{'services':>10}{'load':>8}{'p50':>10}{'p99':>10}")
    for routing in ROUTINGS:
        need = needed(site, options.rate, options.p99, routing)
        print(
            f"{routing:<10}{need.replicas:>10}{need.load:>8.0%}"
            f"{need.outcome.p50 * 1e3:>7.0f} ms{need.outcome.p99 * 1e3:>7.0f} ms",
            flush=True,
        )
    return 0


def _print_law(site: Site, most: float) -> None:
    """Show that at equal load each, the number of services matters little once it is large."""
    load = 0.8
    print(f"\neach at {load:.0%} of its capacity; p99 in ms")
    print(f"{'services':>8}{'a second':>12}" + "".join(f"{routing:>10}" for routing in ROUTINGS))
    for replicas in _LAW:
        rate = load * most * replicas
        requests = enough_requests(site, rate)
        outcomes = [simulate(site, replicas, rate, routing, requests) for routing in ROUTINGS]
        cells = "".join(f"{outcome.p99 * 1e3:>10.0f}" for outcome in outcomes)
        print(f"{replicas:>8}{rate:>12,.0f}{cells}", flush=True)


def _say(line: str) -> None:
    print(line, flush=True)


def _share(text: str) -> float:
    value = float(text)
    if not 0.15 <= value <= 0.85:
        raise argparse.ArgumentTypeError("a load is between 0.15 and 0.85")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queueing", description=__doc__)
    parser.add_argument("--record", type=Path, default=RECORD, help="where costs are kept")
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="measure costs, predict, measure, compare")
    validate.add_argument("--bundle", type=Path, default=Path("bundles/everyday-de-en"))
    validate.add_argument("--data", type=Path, default=default_data_directory())
    validate.add_argument("--loads", type=_share, nargs="+", default=Protocol().loads)
    validate.add_argument("--rounds", type=int, default=Protocol().rounds)
    validate.add_argument("--seconds", type=_positive, default=Protocol().seconds)
    validate.add_argument("--check", action="store_true", help="fail unless all are within 20 %%")
    plan = commands.add_parser("plan", help="how many services a load takes")
    plan.add_argument("--rate", type=_positive, default=1000.0, help="sentences per second")
    plan.add_argument("--p99", type=_positive, default=0.5, help="seconds for 99 %% of them")
    plan.add_argument("--assume-gpu", action="store_true", help="costs of an unmeasured GPU")
    plan.add_argument("--law", action="store_true", help="the same load each, 1 to 1,000 services")
    return parser


if __name__ == "__main__":
    sys.exit(main())
