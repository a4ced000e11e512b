from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.shards import Shards
from training.shortlist.lexicon import ADDED, Lexicon, learn_lexicon

VOCABULARY_SIZE = 8
NONE = 3

Pairs = list[tuple[tuple[int, ...], tuple[int, ...]]]

tokens = st.lists(st.integers(4, VOCABULARY_SIZE - 1), max_size=5).map(tuple)
corpora = st.lists(st.tuples(tokens, tokens), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shards")


def as_table(lexicon: Lexicon) -> dict[tuple[int, int], float]:
    ids = zip(lexicon.source_ids_E.tolist(), lexicon.target_ids_E.tolist(), strict=True)
    return dict(zip(ids, lexicon.probabilities_E.tolist(), strict=True))


def plain_model_1(pairs: Pairs, iterations: int) -> dict[tuple[int, int], float]:
    """The paper's algorithm, one link at a time, as a reference."""
    with_none = [((*source, NONE), target) for source, target in pairs]
    counts: dict[tuple[int, int], float] = defaultdict(float)
    for source, target in with_none:
        for link in ((s, t) for s in source for t in target):
            counts[link] += 1
    for round_ in range(iterations + 1):
        totals = {s: ADDED * VOCABULARY_SIZE for s, _ in counts}
        for (s, _), count in counts.items():
            totals[s] += count
        table = {(s, t): (count + ADDED) / totals[s] for (s, t), count in counts.items()}
        if round_ == iterations:
            break
        counts = dict.fromkeys(counts, 0.0)
        for source, target in with_none:
            for t in target:
                evidence = sum(table[s, t] for s in source)
                for s in source:
                    counts[s, t] += table[s, t] / evidence
    return table


@given(pairs=corpora, iterations=st.integers(0, 3), links_per_batch=st.integers(1, 40))
def test_table_equals_that_of_the_reference_whatever_the_batches(
    directory: Path, pairs: Pairs, iterations: int, links_per_batch: int
) -> None:
    shards = Shards.write(directory, pairs)
    at_once = learn_lexicon(shards, VOCABULARY_SIZE, NONE, iterations=iterations)
    in_batches = learn_lexicon(
        shards, VOCABULARY_SIZE, NONE, iterations=iterations, links_per_batch=links_per_batch
    )
    table = as_table(at_once)
    assert list(table) == sorted(table)
    assert table == pytest.approx(plain_model_1(pairs, iterations))
    assert as_table(in_batches) == table


@given(pairs=corpora, most_entries=st.integers(0, 10), links_per_batch=st.integers(1, 40))
def test_table_never_exceeds_most_entries(
    directory: Path, pairs: Pairs, most_entries: int, links_per_batch: int
) -> None:
    lexicon = learn_lexicon(
        Shards.write(directory, pairs),
        VOCABULARY_SIZE,
        NONE,
        most_entries=most_entries,
        links_per_batch=links_per_batch,
    )
    assert len(lexicon.probabilities_E) <= most_entries
    assert np.all((lexicon.probabilities_E > 0) & (lexicon.probabilities_E <= 1))


def test_rarest_links_are_evicted(tmp_path: Path) -> None:
    shards = Shards.write(tmp_path, [((4,), (6,))] * 3 + [((5,), (7,))] * 2 + [((4,), (7,))])
    table = as_table(learn_lexicon(shards, VOCABULARY_SIZE, NONE, most_entries=4))
    assert table.keys() == {(NONE, 6), (NONE, 7), (4, 6), (5, 7)}


def test_toy_lexicon_is_learned(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    digits = [tuple(rng.integers(4, 14, rng.integers(3, 9)).tolist()) for _ in range(500)]
    pairs = [(source, tuple(i + 10 for i in reversed(source))) for source in digits]
    table = as_table(learn_lexicon(Shards.write(tmp_path, pairs), 24, NONE, iterations=10))
    for digit in range(4, 14):
        likeliest = max(range(14, 24), key=lambda letter: table[digit, letter])
        assert likeliest == digit + 10
        assert table[digit, likeliest] > 0.9
