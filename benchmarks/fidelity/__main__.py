"""Counts the inputs whose figures, symbols and placeholders a bundle keeps; in news, figures.

    python -m benchmarks.fidelity [--model NAME ... | --bundle PATH ...] [--direction de-en ...]

The inputs are German and English texts of 31 kinds, and the sentences of newstest2014 that have
figures. Prints a table with a row for each kind, and one line of JSON. ``violated`` counts inputs
by the rule that was violated; an input can violate several. The service is started for each bundle
with that bundle alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fidelity.figures import find_figures
from benchmarks.fidelity.inputs import LANGUAGES, Input, inputs
from benchmarks.fidelity.scoring import UNKNOWN, Verdict, has_letters, judge, keeps_figures
from benchmarks.quality import translate
from benchmarks.server import serving
from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle
from training.data import default_data_directory
from training.evaluation.bitext import Bitext, find_bitext
from training.evaluation.bundles import directions_of
from training.refusal import Refusal

NEWS = "wmt-news/test"
"""newstest2014."""


class NoDirection(Refusal):
    """A bundle translates none of the directions that the benchmark has inputs for."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An input, its translation and the verdict."""

    input: Input
    translation: str
    verdict: Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    paths = options.bundle or [options.bundles / name for name in options.model]
    paths = paths or sorted(p.parent for p in options.bundles.glob("[!.]*/manifest.json"))
    results: dict[str, dict[str, Any]] = {}
    try:
        work = [(bundle, _directions(bundle, options.direction)) for bundle in map(_open, paths)]
        news = {
            pair: find_bitext(NEWS, *pair, options.data)
            for pair in sorted({pair for _, pairs in work for pair in pairs})
            if not options.no_news
        }
        for bundle, pairs in work:
            results[str(bundle.path)] = _measure(bundle, pairs, news, options)
    except (Refusal, InvalidBundle) as error:
        print(f"fidelity: {error}", file=sys.stderr)
        return 2
    line = json.dumps({"benchmark": "fidelity", "bundles": results}, ensure_ascii=False)
    print(line)
    if options.json:
        options.json.write_text(line + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--model", action="append", default=[], metavar="NAME", help="repeatable (default: all)"
    )
    which.add_argument(
        "--bundle", action="append", type=Path, metavar="PATH", help="a bundle anywhere; repeatable"
    )
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument(
        "--direction", action="append", metavar="de-en", help="repeatable (default: the bundle's)"
    )
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--no-news", action="store_true", help=f"leave out {NEWS}")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="print up to N failures of each kind"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the line of JSON here too")
    return parser


def _open(path: Path) -> Bundle:
    return Bundle.open(path.resolve())


def _directions(bundle: Bundle, wanted: Sequence[str] | None) -> list[tuple[str, str]]:
    """Raises ``NoDirection``."""
    own = directions_of(bundle.manifest)
    found = [
        (source, target)
        for source, target in own
        if {source, target} == set(LANGUAGES) and (not wanted or f"{source}-{target}" in wanted)
    ]
    if not found:
        raise NoDirection(
            f"{bundle.path} translates {', '.join(map('-'.join, own))}; the benchmark has inputs "
            f"for {', '.join(wanted or ('de-en', 'en-de'))}: name another bundle or --direction"
        )
    return found


def _measure(
    bundle: Bundle,
    pairs: Sequence[tuple[str, str]],
    news: dict[tuple[str, str], Bitext],
    options: argparse.Namespace,
) -> dict[str, Any]:
    manifest, found = bundle.manifest, dict[str, Any]()
    with tempfile.TemporaryDirectory() as directory:
        served = Path(directory)
        (served / bundle.path.name).symlink_to(bundle.path, target_is_directory=True)
        with serving(served, PRECISION=options.precision) as (url, _):
            for source, target in pairs:
                texts = inputs(source)
                bitext = Bitext("fidelity", source, target, (), tuple(each.text for each in texts))
                answers = translate(url, bitext, manifest.name, options.beam_size)
                judged = [
                    Judged(each, answer, judge(each.text, answer, each.spans, (source, target)))
                    for each, answer in zip(texts, answers, strict=True)
                ]
                print(f"{manifest.name} {manifest.version}, {source}-{target}, ", end="")
                print(f"{options.precision}, beam {options.beam_size}, through HTTP")
                report = print_report(judged, options.failures)
                if not options.no_news:
                    part = with_figures(news[source, target])
                    answers = translate(url, part, manifest.name, options.beam_size)
                    report["news"] = count_news(part, answers)
                    print(f"  {NEWS}: {report['news']}")
                found[f"{source}-{target}"] = report
    about = {"version": manifest.version, "precision": options.precision}
    return {**about, "beam_size": options.beam_size, "directions": found}


def counts(judged: Iterable[Judged]) -> dict[str, int]:
    """Numbers of inputs, in the columns of the table."""
    verdicts = [each.verdict for each in judged]
    return {
        "inputs": len(verdicts),
        "kept": sum(each.kept for each in verdicts),
        "hallucinated": sum(each.hallucinated for each in verdicts),
        "unknown": sum(each.unknown for each in verdicts),
        "other_ending": sum(each.other_ending for each in verdicts),
    }


def print_report(judged: Sequence[Judged], failures: int) -> dict[str, Any]:
    """Print the table and up to ``failures`` failures of each kind; returns the same figures."""
    groups: dict[str, list[Judged]] = {}
    for each in judged:
        groups.setdefault(each.input.kind, []).append(each)
    kinds = {kind: counts(group) for kind, group in groups.items()}
    without_letters = counts(each for each in judged if not has_letters(each.input.text))
    total = counts(judged)
    violated = Counter(rule for each in judged for rule in each.verdict.violated)
    print(f"  {'kind':<16}" + "".join(f"{column:>14}" for column in total))
    for name, row in {**kinds, "without letters": without_letters, "all": total}.items():
        print(f"  {name:<16}" + "".join(f"{count:14}" for count in row.values()))
    print("  violated: " + ", ".join(f"{rule} {count}" for rule, count in violated.most_common()))
    for kind, group in groups.items():
        failed = [each for each in group if each.verdict.failures]
        for each in failed[:failures]:
            rules = ", ".join(each.verdict.failures)
            print(f"  {kind}: {each.input.text!r} -> {each.translation!r}: {rules}")
    return {**total, "violated": violated, "without_letters": without_letters, "kinds": kinds}


def with_figures(bitext: Bitext) -> Bitext:
    """The sentences of a test set whose source has figures."""
    languages = bitext.source, bitext.target
    pairs = [
        (source, reference)
        for source, reference in zip(bitext.sources or (), bitext.references, strict=True)
        if find_figures(source, *languages)
    ]
    return Bitext(
        bitext.name, *languages, tuple(pair[1] for pair in pairs), tuple(pair[0] for pair in pairs)
    )


def count_news(bitext: Bitext, translations: Sequence[str]) -> dict[str, int]:
    """Counts for sentences with figures.

    Human translators convert units, so that a correct translation can be below 100 %.
    """
    sources, languages = bitext.sources or (), (bitext.source, bitext.target)

    def kept(texts: Sequence[str]) -> int:
        return sum(keeps_figures(s, t, languages) for s, t in zip(sources, texts, strict=True))

    return {
        "sentences": len(sources),
        "kept": kept(translations),
        "kept_by_references": kept(bitext.references),
        "unknown": sum(UNKNOWN.search(each) is not None for each in translations),
    }


if __name__ == "__main__":
    sys.exit(main())
