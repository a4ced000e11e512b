"""Cleans the corpora of a recipe into files of lines, in worker processes and resumably.

Processes judge blocks of pairs. This one reads, drops duplicates and writes, in the order of the
text, so that the number of processes changes nothing.
"""

from __future__ import annotations

import functools
import itertools
import logging
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from training.data.cleaning import Cleaner, Filters, Verdicts
from training.data.corpus import Pair, read_lines, read_pairs, sampled
from training.data.leaks import TestSet, warnings_of
from training.data.progress import Progress, opened_at, synced
from training.data.seen import Seen
from training.data.workers import Workers
from training.recipe import Corpus, Data, Recipe
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_RUN = 50
"""Successive pairs of a corpus with documents that are taken together, so that they can be joined
as passages."""

T = TypeVar("T")

BLOCK = 2_000
"""Pairs that a process judges at once."""


@dataclass(frozen=True, slots=True)
class CleanText:
    """Text of a corpus after cleaning, as two files of lines."""

    corpus: Corpus
    source: Path
    target: Path
    found: int
    """Pairs that passed the filters."""

    @property
    def pairs(self) -> int:
        """Pairs that are used."""
        return min(self.found, self.corpus.most or self.found)

    def read(self) -> Iterator[Pair]:
        pairs = map(Pair, read_lines(self.source), read_lines(self.target))
        return sampled(pairs, self.found, self.pairs, _RUN if self.corpus.documents else 1)

    def passes(self, repeat: float, seed: int) -> Iterator[Iterator[Pair]]:
        """The pairs ``repeat`` times; the last pass has an evenly spread part of them if that is
        no whole number, which begins at a place that depends on the seed and the corpus."""
        for _ in range(int(repeat)):
            yield self.read()
        part = round(self.pairs * (repeat % 1))
        if part:
            begin = random.Random(f"{seed} {self.corpus.label}").randrange(self.pairs)
            numbered = enumerate(self.read())
            yield (pair for i, pair in numbered if (i * part + begin) % self.pairs < part)


def repeats_of(data: Data, sizes: Sequence[int]) -> list[float]:
    """Passes over each training corpus in an epoch, whose sizes are in any one unit.

    With a temperature T, corpora share an epoch as size^(1/T), the largest one once.
    """
    if data.temperature is None:
        return [corpus.repeat for corpus in data.train]
    largest = max(sizes)
    return [(largest / max(1, size or largest)) ** (1 - 1 / data.temperature) for size in sizes]


def clean_corpora(
    recipe: Recipe,
    run: RunDirectory,
    directory: Path,
    data_directory: Path,
    held_out: Set[str],
    test_sets: Sequence[TestSet],
    progress: Progress,
    processes: int,
) -> tuple[list[CleanText], dict[str, Any]]:
    """Write the text of all training corpora to ``directory``, or the part that is missing there.

    Returns it with what was read, kept and dropped of each corpus.
    """
    data = recipe.data
    tested = frozenset().union(*(each.sides for each in test_sets))
    judge = _Judge(tuple(_filters_of(corpus, data, held_out, tested) for corpus in data.train))
    texts, counts = [], {}
    with Workers(judge, processes) as workers, _Cleaning(directory, progress, test_sets) as stage:
        for number, corpus in enumerate(data.train):
            pairs = read_pairs(corpus, *data.languages(corpus), data_directory, run.translated)
            if corpus.hold_out is not None:
                every = corpus.hold_out
                pairs = (pair for i, pair in enumerate(pairs) if i % every)
            cleaner = stage.cleaned(number, corpus, data.same_template, pairs, workers)
            text = CleanText(corpus, *stage.paths(number), cleaner.kept)
            texts.append(text)
            counts[corpus.label] = {
                "read": cleaner.seen,
                "kept": cleaner.kept,
                "used": text.pairs,
                "dropped": dict(cleaner.dropped),
            }
            dropped = ", ".join(f"{count:,} {why}" for why, count in cleaner.dropped.most_common())
            logger.info(
                "%s: %s of %s pairs%s",
                *(corpus.label, f"{text.pairs:,}", f"{cleaner.seen:,}"),
                f"; dropped: {dropped}" if dropped else "",
            )
            for warning in warnings_of(corpus.label, cleaner.seen, cleaner.dropped):
                logger.warning("%s", warning)
    return texts, counts


@dataclass(frozen=True, slots=True)
class _Judge:
    """The function of the worker processes: judges a block of a corpus by its number."""

    filters: tuple[Filters, ...]

    def __call__(self, block: tuple[int, list[str], list[str]]) -> Verdicts:
        number, sources, targets = block
        return self.filters[number].judge(list(map(Pair, sources, targets)))


def _filters_of(corpus: Corpus, data: Data, held_out: Set[str], tested: Set[str]) -> Filters:
    return Filters(
        max_words=data.max_length,
        max_ratio=data.max_ratio,
        same_numbers=data.same_numbers,
        generated=corpus.generator is not None,
        machine=corpus.translated,
        noisy=data.languages(corpus) if corpus.noisy else None,
        held_out=held_out,
        tested=tested,
    )


class _Cleaning:
    """Context manager of the files that cleaning appends to: the text, and the keys in ``Seen``."""

    def __init__(self, directory: Path, progress: Progress, test_sets: Sequence[TestSet]) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._progress = progress
        self._test_sets = test_sets
        state = progress.document.get("cleaning", {"corpora": [], "keys": 0, "found": []})
        self._corpora: list[dict[str, Any]] = state["corpora"]
        for test_set, found in zip(test_sets, state["found"], strict=False):
            test_set.found.update(found)
        self._keys = opened_at(directory / "seen", 8 * state["keys"])

    def __enter__(self) -> _Cleaning:
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.close()

    @functools.cached_property
    def _known(self) -> Seen:
        # Read on demand, because it takes two minutes for a hundred million pairs.
        return Seen.read(self._directory / "seen", self._keys.tell() // 8)

    def paths(self, number: int) -> tuple[Path, Path]:
        return self._directory / f"{number}.source", self._directory / f"{number}.target"

    def cleaned(
        self,
        number: int,
        corpus: Corpus,
        same_template: int | None,
        pairs: Iterator[Pair],
        workers: Workers[tuple[int, list[str], list[str]], Verdicts],
    ) -> Cleaner:
        """Write the pairs of a corpus that are kept, and return their counts."""
        if number == len(self._corpora):
            self._corpora.append({"seen": 0, "kept": 0, "dropped": {}, "sizes": (0, 0)})
        state = self._corpora[number]
        cleaner = Cleaner(
            generated=corpus.generator is not None,
            same_template=same_template,
            known=Seen() if state.get("done") else self._known,
            seen=state["seen"],
            kept=state["kept"],
            dropped=Counter(state["dropped"]),
        )
        if state.get("done"):
            return cleaner
        rest = itertools.islice(pairs, cleaner.seen, None)
        first, second = map(opened_at, self.paths(number), state["sizes"])
        with first as source, second as target:

            def saved(done: bool = False) -> dict[str, Any]:
                synced(source, target, self._keys)
                self._corpora[number] = {
                    "seen": cleaner.seen,
                    "kept": cleaner.kept,
                    "dropped": dict(cleaner.dropped),
                    "sizes": (source.tell(), target.tell()),
                    "done": done,
                }
                return {
                    "corpora": self._corpora,
                    "keys": self._keys.tell() // 8,
                    "found": [sorted(each.found) for each in self._test_sets],
                }

            for verdicts, _ in workers.map(_blocks(number, tracked(rest, corpus.label))):
                kept = list(cleaner.kept_of(verdicts))
                for texts, file in ((verdicts.sources, source), (verdicts.targets, target)):
                    file.write("".join(f"{texts[place]}\n" for place in kept).encode())
                self._keys.write(cleaner.added.tobytes())
                cleaner.added = array("Q")
                for place in verdicts.tested.keys() & set(kept):
                    for test_set in self._test_sets:
                        test_set.note(verdicts.tested[place])
                self._progress.save_at_times("cleaning", saved)
            self._progress.save("cleaning", saved(done=True))
        return cleaner


def _blocks(
    number: int, pairs: Iterable[Pair]
) -> Iterator[tuple[tuple[int, list[str], list[str]], None]]:
    pairs = iter(pairs)
    while block := list(itertools.islice(pairs, BLOCK)):
        yield (number, *Pair.columns(block)), None


def tracked(pairs: Iterable[T], title: str) -> Iterable[T]:
    """The pairs, with a progress bar on a terminal while they are read."""
    return tqdm(
        pairs,
        title,
        unit=" pairs",
        unit_scale=True,
        leave=False,
        dynamic_ncols=True,
        disable=None,
    )
