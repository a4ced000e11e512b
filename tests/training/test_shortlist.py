from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer, train_tokenizer
from tests.support.shortlists import as_lists, ids
from tests.support.tiny_training import VOCABULARY_SIZE as TINY_VOCABULARY
from tests.support.tiny_training import prepared, tiny_recipe
from training.data.corpus import CorpusError
from training.data.prepare import prepare
from training.data.shards import Shards
from training.run_directory import RunDirectory
from training.shortlist.lexicon import ADDED, Lexicon, learn_lexicon
from training.shortlist.selection import Coverage, always_allowed, choose, coverage, make_shortlist

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


PAD, UNK, BOS, EOS = SPECIAL_IDS.pad, SPECIAL_IDS.unk, SPECIAL_IDS.bos, SPECIAL_IDS.eos

SIZES = {"per_source": 100, "frequent": 100}
TEXTS = ["ab 12, cd!", "cd 3 ab.", "(ab) „cd“ x9"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return train_tokenizer(TEXTS, tmp_path / "tokenizer.model", vocabulary_size=22, threads=1)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return prepared(tmp_path, tiny_recipe())


def lexicon_of(table: dict[tuple[int, int], float]) -> Lexicon:
    source_ids, target_ids = zip(*sorted(table), strict=True)
    probabilities = [table[key] for key in sorted(table)]
    return Lexicon(np.array(source_ids), np.array(target_ids), np.array(probabilities))


@given(
    table=st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)), st.floats(1e-6, 1), min_size=1
    ),
    always=st.sets(st.integers(0, 6)),
    per_source=st.integers(0, 4),
    least=st.sampled_from((0.0, 0.1, 0.5)),
)
def test_choose_takes_each_source_tokens_likeliest_targets(
    table: dict[tuple[int, int], float], always: set[int], per_source: int, least: float
) -> None:
    shortlist = choose(
        lexicon_of(table),
        ids(*sorted(always)),
        7,
        per_source=per_source,
        least_probability=least,
        without_list=3,
    )
    likeliest = [
        sorted(
            sorted(
                (t for t in set(range(7)) - always if s != 3 and table.get((s, t), -1) >= least),
                key=lambda t: (-table[s, t], t),
            )[:per_source]
        )
        for s in range(7)
    ]
    assert as_lists(shortlist) == (sorted(always), likeliest)


def test_frequent_targets_are_always_allowed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    rare, common = [i for i, piece in enumerate(pieces) if piece.isalpha()][:2]
    pairs = [((rare,), (common, common, rare)), ((common,), (common,))]
    shards = Shards.write(tmp_path / "train", pairs)
    assert always_allowed(shards, tokenizer, 0).tolist() == [UNK, EOS]
    assert always_allowed(shards, tokenizer, 1).tolist() == [UNK, EOS, common]
    assert always_allowed(shards, tokenizer, 100).tolist() == [UNK, EOS, rare, common]


def test_digits_and_marks_of_the_target_are_always_allowed(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    shards = Shards.write(tmp_path / "train", [((), tokenizer.encode(text)) for text in TEXTS[:2]])
    pieces = tokenizer.pieces(always_allowed(shards, tokenizer, 0).tolist())
    assert {"1", "2", "3", ",", "!", "."} <= {piece.removeprefix("\u2581") for piece in pieces}
    assert not {"a", "b", "c", "d", "ab", "cd", "9", "(", "„"} & set(pieces)


def test_coverage_counts_tokens_and_whole_sentences() -> None:
    shortlist = Shortlist(ids(3), ids(0, 0, 0, 0, 0, 1, 3), ids(0, 1, 2))
    pairs = [((4, 3), (0, 3)), ((5, 3), (0, 1, 2)), ((4, 5, 3), ())]
    assert coverage(shortlist, pairs) == Coverage(
        sentences=3, tokens=5, allowed=4 / 5, whole=2 / 3, average_size=3.0
    )
    assert coverage(shortlist, []) == Coverage(0, 0, 0.0, 0.0, 0.0)


def test_shortlist_of_a_run_is_the_same_each_time_and_reports_its_coverage(
    run: RunDirectory, tmp_path: Path
) -> None:
    report = make_shortlist(tiny_recipe(), run, run.path, **SIZES)
    shortlist, content = Shortlist.load(run.shortlist), run.shortlist.read_bytes()
    always = set(shortlist.always.tolist())
    assert {UNK, EOS} <= always and not {PAD, BOS} & {*always, *shortlist.targets.tolist()}
    assert shortlist.source_vocabulary_size == report.vocabulary == TINY_VOCABULARY
    assert report.always == len(shortlist.always)
    assert (report.valid.sentences, report.valid.allowed) == (6, 1.0)
    # Translations are covered once they exist.
    assert report.translations is None
    run.translations.write_text("1 2 X\n" * 5, encoding="utf-8")
    own = make_shortlist(tiny_recipe(), run, run.path, **SIZES).translations
    assert own is not None
    assert (own.sentences, own.tokens, own.allowed) == (5, 15, 1.0)
    assert run.shortlist.read_bytes() == content
    assert not list(run.path.glob("*.partial"))
    run.translations.write_text("1 2 X\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="1 lines and test 5"):
        make_shortlist(tiny_recipe(), run, run.path, **SIZES)
    # Another preparation deletes the shortlist.
    prepare(tiny_recipe(), run, tmp_path)
    assert not run.shortlist.exists()
