"""Online benchmark over HTTP: highest request rate within a latency limit, and client throughput.

    python -m benchmarks.online [--servers NAME ...] [--clients N ...] [--bundle DIRECTORY]

Each request has one sentence. Requests arrive at random, at rising rates, independent of answers.
The result is the highest rate at which 99 % are answered within a second, for our service and for
two ways of serving CTranslate2. With ``--clients``, also the target tokens per second of 1, 2, 4, …
clients that each send the next sentence after the last answer, and the ratio to the engine's
offline speed with the same sentences. For our service, both predictions of docs/scaling.md are
printed beside what was measured (``capacity``).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import capacity, machine
from benchmarks.base import CACHE, base_bundle
from benchmarks.client import LOST, Outcome, Plan, send
from benchmarks.engines import SETTINGS, CTranslate2, Dragoman, Engine, Search
from benchmarks.peers.ctranslate2 import COMPUTE_TYPE, converted
from benchmarks.server import free_port, running, serving
from benchmarks.worker import Done, EngineFailed, Worker
from benchmarks.workloads import (
    Sentences,
    captions,
    languages,
    newstest_lengths,
    random_words,
    texts_of,
)
from models.bundle.bundle import TOKENIZER, Bundle
from models.bundle.manifest import Precision
from service.runtime import processor
from training.data import default_data_directory
from training.data.corpus import CorpusError

SERVERS = ("dragoman", "windowed", "libretranslate")
SENTENCES = 256
SEARCH = Search(beam_size=4, max_decoding_length=192)
LIMIT_SECONDS = 1.0
"""Latency limit for 99 % of the requests."""
_HALVINGS = 4
_WARMING_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Level:
    """Measurements at one rate, in requests per second."""

    rate: float
    requests: int
    p50: float
    p99: float

    @property
    def passed(self) -> bool:
        return self.p99 < LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class Crowd:
    """Throughput of concurrent clients; ``of_offline`` is relative to offline speed."""

    clients: int
    tokens_per_second: float
    of_offline: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Subject:
    """The sentences of the benchmark, and the engines' offline results with them."""

    bundle: Bundle
    precision: Precision
    threads: int
    cache: Path
    sentences: Sentences
    bodies: tuple[str, ...]

    def offline(self, engine: Engine) -> Done:
        """The median of three runs over all sentences at once."""
        with Worker(engine) as worker:
            runs = [worker.translate((self.sentences,), SEARCH) for _ in range(4)][1:]
        return sorted(runs, key=lambda run: run.seconds)[1]

    @property
    def ours(self) -> Dragoman:
        return Dragoman(self.bundle.path, self.precision, self.threads)

    def best_peer(self) -> CTranslate2:
        """CTranslate2 in its fastest setting for 32 of the sentences."""
        model = converted(self.bundle, self.precision, self.cache)
        seconds: dict[CTranslate2, float] = {}
        for setting in SETTINGS:
            engine = CTranslate2(model, COMPUTE_TYPE[self.precision], self.threads, setting)
            try:
                with Worker(engine) as worker:
                    runs = [worker.translate((self.sentences[:32],), SEARCH) for _ in range(2)]
            except EngineFailed as error:
                print(f"left out: {error}", file=sys.stderr)
            else:
                seconds[engine] = runs[-1].seconds
        return min(seconds, key=lambda engine: seconds[engine])

    def server(self, name: str, peer: CTranslate2) -> AbstractContextManager[tuple[str, int]]:
        if name == "dragoman":
            return serving(
                self.bundle.path.parent, PRECISION=self.precision, THREADS=str(self.threads)
            )
        port = free_port()
        arguments = {
            "--model": peer.model,
            "--tokenizer": self.bundle.path / TOKENIZER,
            "--compute-type": peer.compute_type,
            "--threads": peer.threads,
            "--port": port,
        }
        flat = [str(part) for pair in arguments.items() for part in pair]
        return running(["-m", "benchmarks.peers.server", name, *flat], port, peer.environment)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        subject = _subject(options)
    except CorpusError as error:
        print(f"online: {error}", file=sys.stderr)
        return 2
    peer = subject.best_peer()
    engines: dict[str, Engine] = {
        "dragoman" if name == "dragoman" else "ctranslate2": (
            subject.ours if name == "dragoman" else peer
        )
        for name in options.servers
    }
    offline = {name: subject.offline(engine) for name, engine in engines.items()}
    print(f"{processor.description()}; {subject.bundle.manifest.name}, {subject.precision}, beam 4")
    for engine, done in offline.items():
        print(
            f"offline, {SENTENCES} sentences at once: {engine} {done.tokens_per_second:.0f} tok/s"
        )
    levels: dict[str, list[Level]] = {}
    crowds: dict[str, list[Crowd]] = {}
    planned: capacity.Capacity | None = None
    for name in options.servers:
        done = offline["dragoman" if name == "dragoman" else "ctranslate2"]
        with subject.server(name, peer) as (url, process_id):
            _settle(url, subject)
            if name == "dragoman":
                planned = capacity.measure(url, process_id, subject.bodies, options.seconds)
                print("", *capacity.lines(planned), sep="\n", flush=True)
                _settle(url, subject)
            if not options.no_rates:
                start = len(subject.sentences) / done.seconds / 4
                levels[name] = find_highest_rate(url, subject, start, options.seconds)
                _print_levels(name, levels[name])
            crowds[name] = [
                measure_crowd(url, subject, clients, done, options.seconds)
                for clients in options.clients
            ]
            _print_crowds(name, crowds[name])
    if "dragoman" in levels:
        _print_comparison({name: highest_rate(each) for name, each in levels.items()})
    record = {
        "benchmark": "online",
        "machine": processor.description(),
        "bundle": subject.bundle.manifest.name,
        "precision": subject.precision,
        "setting": peer.setting,
        "offline": {engine: done.tokens_per_second for engine, done in offline.items()},
        "rates": {name: [_fields(level) for level in each] for name, each in levels.items()},
        "clients": {name: [_fields(crowd) for crowd in each] for name, each in crowds.items()},
        "capacity": planned and asdict(planned),
    }
    print(json.dumps(record))
    return 0


def find_highest_rate(url: str, subject: Subject, start: float, seconds: float) -> list[Level]:
    """Every rate that was tried: rising by half until one fails, then bisection."""
    levels: list[Level] = []
    passed, failed, halved = 0.0, math.inf, 0
    rate = start
    while halved <= _HALVINGS:
        level = measure_rate(url, subject, rate, seconds)
        levels.append(level)
        _settle(url, subject)
        if level.passed:
            passed = max(passed, rate)
        else:
            failed = min(failed, rate)
        if math.isinf(failed):
            rate *= 1.5
        else:
            rate = (passed + failed) / 2
            halved += 1
    return levels


def highest_rate(levels: Sequence[Level]) -> float:
    return max((level.rate for level in levels if level.passed), default=0.0)


def measure_rate(url: str, subject: Subject, rate: float, seconds: float) -> Level:
    outcomes = send(url, Plan(subject.bodies, seconds, rate=rate))
    return Level(rate, len(outcomes), *_percentiles(outcomes))


def measure_crowd(url: str, subject: Subject, clients: int, offline: Done, seconds: float) -> Crowd:
    """Tokens of the requests that were answered while all clients were active."""
    outcomes = send(url, Plan(subject.bodies, seconds, clients=clients))
    lost = sum(each.latency == LOST for each in outcomes)
    if lost:
        raise RuntimeError(f"{url} refused {lost} of {len(outcomes)} requests of {clients} clients")
    (translations,) = offline.translations
    counted = [each for each in outcomes if _WARMING_SECONDS <= each.at <= seconds]
    tokens = sum(len(translations[each.body]) + 1 for each in counted)
    speed = tokens / (seconds - _WARMING_SECONDS)
    return Crowd(clients, speed, speed / offline.tokens_per_second, *_percentiles(counted))


def _settle(url: str, subject: Subject) -> None:
    """Wait until requests of earlier clients are finished: four sentences in turn."""
    send(url, Plan(subject.bodies[:4], 0.5, clients=1))
    machine.wait_until_quiet(20)


def _percentiles(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    latencies = sorted(each.latency for each in outcomes) or [LOST]
    at = min(len(latencies) - 1, int(0.99 * len(latencies)))
    return statistics.median(latencies), latencies[at]


def _subject(options: argparse.Namespace) -> Subject:
    bundle = Bundle.open(options.bundle) if options.bundle else base_bundle(options.cache)
    if options.bundle:
        sentences = captions(bundle, options.data)[:SENTENCES]
    else:
        sentences = random_words(bundle, newstest_lengths(SENTENCES))
    pair = languages(bundle)
    bodies = tuple(json.dumps({"q": text, **pair}) for text in texts_of(bundle, sentences))
    threads = options.threads or processor.cores()
    return Subject(bundle, options.precision, threads, options.cache, sentences, bodies)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online", description=__doc__)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS, metavar="NAME")
    parser.add_argument("--clients", nargs="*", type=int, default=(), metavar="N")
    parser.add_argument("--no-rates", action="store_true", help="only what --clients asks for")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each rate or crowd")
    parser.add_argument(
        "--bundle", type=Path, help="translate Multi30k with it (default: the base network)"
    )
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    parser.add_argument("--threads", type=int, default=0, help="of each engine; 0 is every core")
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


def _print_levels(name: str, levels: Sequence[Level]) -> None:
    print(f"\n{name:<16}{'requests/s':>12}{'requests':>10}{'p50 ms':>9}{'p99 ms':>9}")
    for level in sorted(levels, key=lambda level: level.rate):
        print(
            f"{'':<16}{level.rate:>12.1f}{level.requests:>10}{level.p50 * 1e3:>9.0f}"
            f"{level.p99 * 1e3:>9.0f}{'' if level.passed else '  too late'}",
            flush=True,
        )


def _print_crowds(name: str, crowds: Sequence[Crowd]) -> None:
    if crowds:
        print(
            f"\n{name:<16}{'clients':>12}{'tok/s':>10}{'of offline':>12}{'p50 ms':>9}{'p99 ms':>9}"
        )
    for crowd in crowds:
        print(
            f"{'':<16}{crowd.clients:>12}{crowd.tokens_per_second:>10.0f}{crowd.of_offline:>12.0%}"
            f"{crowd.p50 * 1e3:>9.0f}{crowd.p99 * 1e3:>9.0f}",
            flush=True,
        )


def _print_comparison(highest: Mapping[str, float]) -> None:
    print(f"\nhighest rate with p99 < {LIMIT_SECONDS:.0f} s")
    for name, rate in highest.items():
        times = f"{highest['dragoman'] / rate:>8.2f} x" if rate else "    none"
        print(f"{name:<16}{rate:>12.1f}/s{times}")
    print()


def _fields(measured: Level | Crowd) -> dict[str, float | None]:
    """Values for JSON, which has no infinity."""
    return {k: None if v == LOST else v for k, v in asdict(measured).items()}


if __name__ == "__main__":
    sys.exit(main())
