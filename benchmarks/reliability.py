"""Reliability of confidences: the probability of words against how often the reference has them.

    python -m benchmarks.reliability NAME [--test CORPUS ...] [--most N] [-o FILE]

Translates the test sets through HTTP with the bundle, in each of its directions, and prints a table
of calibration for each, as Markdown. Draws the reliability diagram with ``-o``.

A word of a translation is right if the reference has it, spelled the same, anywhere; a repeated
word is right as often as the reference has it, as in BLEU. Punctuation marks do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.quality import answered
from benchmarks.server import serving
from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle
from service.text.words import words
from training.data import default_data_directory
from training.evaluation.bitext import Bitext, find_bitext
from training.evaluation.bundles import directions_of
from training.figures.style import COLOURS, GREY, PALE, WIDTH, styled, write
from training.refusal import Refusal

BINS = 10
"""Number of bins of probabilities, of equal width."""
TESTS = ("tatoeba/test", "wmt-news/test")
DOUBTFUL = 0.5
"""The page underlines words below this probability."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Words of a translated test set in bins of their probability; B bins."""

    direction: str
    sentences: int
    counts_B: NDArray[np.int64]
    probabilities_B: NDArray[np.float64]
    """Sum over the words of each bin."""
    right_B: NDArray[np.int64]
    """Words that the reference has."""

    @classmethod
    def of(
        cls, direction: str, sentences: int, judged: Sequence[tuple[float, bool]]
    ) -> Reliability:
        """Count ``judged`` words in bins: the probability of each word, and whether it is right."""
        probabilities = np.array([probability for probability, _ in judged])
        right = np.array([is_right for _, is_right in judged], bool)
        bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
        return cls(
            direction,
            sentences,
            np.bincount(bins, minlength=BINS),
            np.bincount(bins, probabilities, BINS).astype(np.float64),
            np.bincount(bins[right], minlength=BINS),
        )

    @property
    def words(self) -> int:
        return int(self.counts_B.sum())

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: mean distance between probability and share of right words,
        weighted by the words of each bin (Naeini et al. 2015)."""
        return float(np.abs(self.probabilities_B - self.right_B).sum() / self.words)

    def row(self) -> str:
        """A row of the table that ``HEADER`` begins."""
        doubtful, rest = np.split(np.arange(BINS), [round(BINS * DOUBTFUL)])
        return (
            f"| {self.direction} | {self.sentences:,} | {self.words:,} "
            f"| {self.probabilities_B.sum() / self.words:.3f} "
            f"| {self.right_B.sum() / self.words:.3f} | {self.calibration_error:.3f} "
            f"| {self.counts_B[doubtful].sum() / self.words:.3f} "
            f"| {_share(self.right_B[doubtful], self.counts_B[doubtful])} "
            f"| {_share(self.right_B[rest], self.counts_B[rest])} |"
        )


HEADER = (
    "| | sentences | words | mean probability | in the reference | ECE | below 0.5 "
    "| of those in the reference | of the others |\n|---|---|---|---|---|---|---|---|---|"
)


def _share(right_B: NDArray[np.int64], counts_B: NDArray[np.int64]) -> str:
    return f"{right_B.sum() / counts_B.sum():.3f}" if counts_B.sum() else "none"


def judged(found: Iterable[dict[str, Any]], reference: str) -> Iterable[tuple[float, bool]]:
    """The probability of each word of ``found``, words of an answer, and whether it is right."""
    left = Counter(reference[start:end] for start, end in words(reference))
    for word in found:
        if any(character.isalnum() for character in word["text"]):
            left[word["text"]] -= 1
            yield word["probability"], left[word["text"]] >= 0


def measure(url: str, model: str, bitext: Bitext) -> Reliability:
    """Translate a test set; raises ``RuntimeError`` if the service refuses."""
    confidences = answered(url, bitext, model, "confidence", confidence=True)
    found: list[tuple[float, bool]] = []
    for confidence, reference in zip(confidences, bitext.references, strict=True):
        found += judged(confidence["words"], reference)
    return Reliability.of(f"{bitext.source}–{bitext.target}", len(bitext.references), found)


@styled
def reliability_diagram(results: dict[str, list[Reliability]]) -> Figure:
    """A column for each test set: share of right words above, share of all words below."""
    figure = Figure(figsize=(WIDTH, 5.2))
    figure.suptitle("Probability of words, and how often the reference has them", x=0.01, ha="left")
    above, below = figure.subplots(
        2, len(results), sharex=True, squeeze=False, height_ratios=(3, 1)
    )
    for column, (name, of_directions) in enumerate(results.items()):
        upper, lower = above[column], below[column]
        upper.plot((0, 1), (0, 1), color=GREY, linewidth=1, linestyle="dotted")
        edges = np.linspace(0, 1, BINS + 1)
        for i, each in enumerate(of_directions):
            some = each.counts_B > 0
            counts = each.counts_B[some]
            label = f"{each.direction}, ECE {each.calibration_error:.3f}"
            upper.plot(
                each.probabilities_B[some] / counts,
                each.right_B[some] / counts,
                color=COLOURS[i],
                marker="os^D"[i % 4],
                label=label,
            )
            lower.stairs(each.counts_B / each.words, edges, color=COLOURS[i], linewidth=1.5)
        upper.set(title=name, xlim=(0, 1), ylim=(0, 1))
        upper.grid(color=PALE)
        lower.set(xlabel="probability", ylim=(0, None))
        upper.legend(loc="lower right")
    above[0].set_ylabel("in the reference")
    below[0].set_ylabel("share of words")
    return figure


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="a bundle")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument("--precision", choices=("int8", "fp16", "fp32"), default="int8")
    parser.add_argument("--test", action="append", metavar="CORPUS", help=f"else {TESTS}")
    parser.add_argument("--most", type=int, help="sentences of each test set, spread evenly")
    parser.add_argument("-o", dest="figure", type=Path, help="PNG or SVG")
    options = parser.parse_args(arguments)
    results: dict[str, list[Reliability]] = {}
    try:
        bundle = Bundle.open(options.bundles / options.name)
        with serving(options.bundles, PRECISION=options.precision) as (url, _):
            for test in options.test or TESTS:
                print(f"\n**{test}**\n\n{HEADER}")
                for pair in directions_of(bundle.manifest):
                    bitext = _some(find_bitext(test, *pair, options.data), options.most)
                    found = measure(url, bundle.manifest.name, bitext)
                    print(found.row(), flush=True)
                    results.setdefault(test, []).append(found)
    except (Refusal, InvalidBundle) as error:
        print(f"reliability: {error}", file=sys.stderr)
        return 2
    if options.figure is not None:
        write(reliability_diagram(results), options.figure)
    return 0


def _some(bitext: Bitext, most: int | None) -> Bitext:
    step = -(-len(bitext.references) // most) if most else 1
    assert bitext.sources is not None
    return replace(bitext, sources=bitext.sources[::step], references=bitext.references[::step])


if __name__ == "__main__":
    sys.exit(main())
