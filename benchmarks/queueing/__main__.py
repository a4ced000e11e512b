"""``python -m benchmarks.queueing``: validates the simulation here, or plans replicas with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmarks import machine
from benchmarks.base import CACHE
from benchmarks.queueing.costs import Fit
from benchmarks.queueing.fleet import ROUTINGS, Impossible, assumed_gpu, needed
from benchmarks.queueing.service import isolated_service
from benchmarks.queueing.simulation import Shape, Site
from benchmarks.queueing.validation import PERCENTILES, Compared, Validation, requests_of
from models.bundle.bundle import Bundle
from service.runtime import processor
from training.data import default_data_directory

WITHIN = 0.2
"""Accepted relative error of a prediction."""
RECORD = TypeAdapter(Site)
"""The file of measured or assumed costs, written by ``validate`` and read by ``plan``."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _validate(options) if options.command == "validate" else _plan(options)
    except FileNotFoundError:
        reason = f"there are no costs at {options.record}; validate measures them"
    except (ValidationError, Impossible) as error:
        reason = str(error)
    print(f"queueing: {reason}", file=sys.stderr)
    return 2


def _validate(options: argparse.Namespace) -> int:
    bundle = Bundle.open(options.bundle)
    if not machine.wait_until_quiet(20):
        print("others use this machine; it will be noisy", file=sys.stderr)
    about = f"{processor.description()}; {bundle.manifest.name}, int8"
    requests = requests_of(bundle, options.data)
    with isolated_service(bundle) as service:
        validation = Validation(service, requests, rounds=options.rounds, seconds=options.seconds)
        shape = Shape(beam_size=bundle.manifest.decoding.beam_size)
        site, fit, compared = validation.validate(about, shape)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_bytes(RECORD.dump_json(site) + b"\n")
    passed = all(abs(each.ratio(name) - 1) <= WITHIN for each in compared for name in PERCENTILES)
    _print_validation(site, fit, compared)
    print(f"p50 and p99 within {WITHIN:.0%} at every load: {'yes' if passed else 'NO'}")
    return 1 if options.check and not passed else 0


def _print_validation(site: Site, fit: Fit, compared: Sequence[Compared]) -> None:
    print(f"{site.about}\n{site.costs}\nerror of the fit: {fit.error:.1%}")
    print(f"capacity: {site.capacity:.0f} sentences a second")
    print(f"{'load':<6}{'rate':>7}{'requests':>10}{'':>6}{'measured':>10}{'predicted':>11}  ratio")
    for each in compared:
        for name in PERCENTILES:
            low, high = each.spread[name]
            print(
                f"{each.load:<6.0%}{each.rate:>5.0f}/s{each.requests:>10}{name:>6}"
                f"{each.measured[name] * 1e3:>7.1f} ms{each.predicted[name] * 1e3:>8.1f} ms"
                f"{each.ratio(name):>7.2f} ({low:.2f}–{high:.2f})"
            )


def _plan(options: argparse.Namespace) -> int:
    site = RECORD.validate_json(options.record.read_bytes())
    if options.assume_gpu:
        site = assumed_gpu(site)
    loop = 1 / (site.costs.receive + site.costs.answer)
    print(f"{site.about}\none service: up to {site.capacity:.0f} sentences a second; its event")
    print(f"loop alone {loop:.0f}")
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queueing", description=__doc__)
    parser.add_argument(
        "--record", type=Path, default=CACHE / "queueing.json", help="where costs are kept"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="measure costs, predict, measure, compare")
    validate.add_argument("--bundle", type=Path, default=Path("bundles/general-de-en"))
    validate.add_argument("--data", type=Path, default=default_data_directory())
    validate.add_argument("--rounds", type=int, default=5)
    validate.add_argument("--seconds", type=float, default=16.0, help="per load and round")
    validate.add_argument("--check", action="store_true", help="fail unless all are within 20 %%")
    plan = commands.add_parser("plan", help="how many services a load takes")
    plan.add_argument("--rate", type=float, default=1000.0, help="sentences per second")
    plan.add_argument("--p99", type=float, default=0.5, help="seconds for 99 %% of them")
    plan.add_argument("--assume-gpu", action="store_true", help="costs of an unmeasured GPU")
    return parser


if __name__ == "__main__":
    sys.exit(main())
