"""BLEU, chrF and TER of bundles, translated through HTTP, as in the published scores.

    python -m benchmarks.quality [NAME ...] [--test CORPUS ...] [--record] [--runs DIR]

Every bundle is scored in each of its directions on the test set of its recipe, or on the named
corpora, such as ``wmt-news/test``. If a corpus has a lower-cased and tokenised version
(``<test set>.lc.norm.tok``), translations are also processed like it and scored against it, as in
replications of the paper. If it has a file ``<test set>.meta`` with a group for each line, such as
a domain, every group is scored, too. With ``--runs``, translations are compared with those of
PyTorch's beam search, which `python -m training evaluate` left in the run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.server import serving
from models.bundle.bundle import MODEL_CARD, Bundle
from models.bundle.card import render_card
from models.bundle.manifest import InvalidBundle, Precision, Score
from training.data import default_data_directory
from training.data.corpus import CorpusError, find_side, read_lines
from training.evaluation import scores
from training.evaluation.bitext import Bitext, check_aligned, find_bitext
from training.evaluation.bundles import directions_among, directions_of
from training.evaluation.network import bitext_of
from training.recipes import recipe_named
from training.refusal import Refusal
from training.run_directory import RunDirectory

TEXTS_PER_REQUEST = 100
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Quality:
    """Settings of the evaluation, the same for every bundle."""

    url: str
    data: Path
    precision: Precision
    beam_size: int | None
    """``None``: the bundle's default."""
    tests: tuple[str, ...]
    """Names of corpora; empty: the recipe's test set."""
    source: str | None
    target: str | None
    runs: Path | None

    def scores_of(self, bundle: Bundle) -> list[Score]:
        """Translate every test set in every direction; prints a row for each score."""
        found: list[Score] = []
        for bitext in self._bitexts(bundle):
            found += self._score(bundle, bitext)
        return found

    def _bitexts(self, bundle: Bundle) -> list[Bitext]:
        directions = directions_among([bundle], self.source, self.target)
        if self.tests:
            return [
                find_bitext(name, *pair, self.data) for name in self.tests for pair in directions
            ]
        recipe = recipe_named(bundle.manifest.provenance.recipe)
        return [bitext_of(recipe.data.test, recipe.data, pair, self.data) for pair in directions]

    def _score(self, bundle: Bundle, bitext: Bitext) -> list[Score]:
        manifest = bundle.manifest
        beam_size = self.beam_size or manifest.decoding.beam_size
        assert bitext.sources is not None
        started = time.perf_counter()
        translations = translate(self.url, bitext, manifest.name, beam_size)
        seconds = time.perf_counter() - started
        speed = len(translations) / seconds
        print(
            f"{manifest.name} {manifest.version}: {len(translations)} sentences of {bitext.title},"
        )
        print(f"  {self.precision}, beam {beam_size}, through HTTP, {speed:.1f} sentences/s")
        several = len(directions_of(manifest)) > 1
        measured = [
            (
                each,
                Score(
                    metric=each.metric,
                    value=round(each.score, 2),
                    test_set=bitext.title if several else bitext.name,
                    precision=self.precision,
                    beam_size=beam_size,
                    signature=each.signature,
                ),
            )
            for each in scores.score(translations, bitext)
        ]
        for each, score in measured:
            print(
                f"  {score.metric:<33} {score.value:6.2f}  {each.mean:.2f} ± {each.margin:.2f}  "
                f"{score.signature}"
            )
        for group, part in self._groups(bitext):
            lines = [[side[i] for i in part] for side in (translations, bitext.references)]
            found = ", ".join(
                f"{name} {metric.corpus_score(lines[0], [lines[1]]).score:.2f}"
                for name, metric in scores.metrics_for(bitext.target).items()
            )
            print(f"  {group:<33} {found}, {len(part)} sentences")
        if self.runs is not None and not self.tests:
            self._compare(bundle, bitext, translations, self.runs)
        return [score for _, score in measured]

    def _groups(self, bitext: Bitext) -> list[tuple[str, list[int]]]:
        """The line numbers of each group of a test set that has groups."""
        try:
            path = find_side(bitext.name, "meta", self.data)
        except CorpusError:
            # Most test sets have no groups.
            return []
        lines = tuple(read_lines(path))
        check_aligned(path, lines, Path(bitext.name), bitext.references)
        groups: dict[str, list[int]] = {}
        for i, group in enumerate(lines):
            groups.setdefault(group, []).append(i)
        return sorted(groups.items())

    def _compare(
        self, bundle: Bundle, bitext: Bitext, translations: Sequence[str], runs: Path
    ) -> None:
        recipe = recipe_named(bundle.manifest.provenance.recipe)
        path = RunDirectory(runs / recipe.name).translations_of(recipe.data)[
            bitext.source, bitext.target
        ]
        by_pytorch = list(read_lines(path))
        check_aligned(path, by_pytorch, Path(f"{bitext.name}.{bitext.target}"), bitext.references)
        differing = sum(a != b for a, b in zip(translations, by_pytorch, strict=True))
        print(f"  {differing} of {len(by_pytorch)} translations differ from PyTorch's")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bundles (default: all)")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        metavar="CORPUS",
        help="a test set in the data directory; repeatable (default: the recipe's)",
    )
    parser.add_argument("--from", dest="source", metavar="CODE", help="else all that bundles have")
    parser.add_argument("--to", dest="target", metavar="CODE", help="else all that bundles have")
    parser.add_argument("--precision", choices=("int8", "fp16", "fp32"), default="int8")
    parser.add_argument("--beam-size", type=int, help="else the bundle's")
    parser.add_argument(
        "--record", action="store_true", help="write the scores into manifest and model card"
    )
    parser.add_argument(
        "--runs", type=Path, help="count differences from what PyTorch translated in these runs"
    )
    options = parser.parse_args(arguments)
    paths = [options.bundles / name for name in options.names] or sorted(
        path.parent for path in options.bundles.glob("[!.]*/manifest.json")
    )
    results: dict[str, list[Score]] = {}
    try:
        bundles = [Bundle.open(path) for path in paths]
        with serving(options.bundles, PRECISION=options.precision) as (url, _):
            quality = Quality(
                url,
                options.data,
                options.precision,
                options.beam_size,
                tuple(options.test),
                options.source,
                options.target,
                options.runs,
            )
            for bundle in bundles:
                results[bundle.path.name] = quality.scores_of(bundle)
    except (Refusal, InvalidBundle) as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    if options.record:
        for bundle in bundles:
            record(bundle, results[bundle.path.name])
    print(json.dumps({name: [s.model_dump() for s in found] for name, found in results.items()}))
    return 0


def translate(url: str, bitext: Bitext, model: str, beam_size: int) -> list[str]:
    return list(answered(url, bitext, model, "translatedText", beam_size=beam_size))


def answered(url: str, bitext: Bitext, model: str, field: str, **options: Any) -> Iterator[Any]:
    """A field of the answer for each source text; raises ``RuntimeError`` if the service refuses.

    Translates with this model, even if the service has other models for the languages.
    """
    texts = bitext.sources or ()
    asked = {"source": bitext.source, "target": bitext.target, "model": model, **options}
    with httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client:
        for start in range(0, len(texts), TEXTS_PER_REQUEST):
            body = {"q": texts[start : start + TEXTS_PER_REQUEST], **asked}
            response = client.post("/translate", json=body)
            if response.is_error:
                raise RuntimeError(f"the service refused: {response.text}")
            yield from response.json()[field]


def record(bundle: Bundle, found: Sequence[Score]) -> None:
    """Republish the bundle with these scores in its manifest and its card."""
    provenance = bundle.manifest.provenance
    kept = [
        old for old in provenance.scores if not any(_same_measurement(old, new) for new in found)
    ]
    scored = provenance.model_copy(update={"scores": (*kept, *found)})
    manifest = bundle.manifest.model_copy(update={"provenance": scored})
    card = bundle.path.parent / f".{bundle.path.name}.card"
    card.write_text(render_card(manifest), encoding="utf-8")
    try:
        files = {name: bundle.path / name for name in manifest.files} | {MODEL_CARD: card}
        Bundle.write(bundle.path, manifest, files)
    finally:
        card.unlink()


def _same_measurement(one: Score, other: Score) -> bool:
    def key(score: Score) -> tuple[object, ...]:
        return score.metric, score.test_set, score.precision, score.beam_size

    return key(one) == key(other)


if __name__ == "__main__":
    sys.exit(main())
