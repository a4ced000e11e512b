from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer, train_tokenizer
from tests.support.shortlists import as_lists, ids
from tests.support.tiny_training import VOCABULARY_SIZE, prepared, tiny_recipe
from training.data.corpus import CorpusError
from training.data.prepare import prepare
from training.data.shards import Shards
from training.run_directory import RunDirectory
from training.shortlist.lexicon import Lexicon, learn_lexicon
from training.shortlist.selection import Coverage, always_allowed, choose, coverage, make_shortlist

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


# --- choosing


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


def test_toy_shortlist_has_each_digits_translation(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    digits = [tuple(rng.permutation(np.arange(4, 14))[:4].tolist()) for _ in range(500)]
    pairs = [(source, tuple(i + 10 for i in source)) for source in digits]
    lexicon = learn_lexicon(Shards.write(tmp_path, pairs), 25, none_id=EOS)
    shortlist = choose(lexicon, ids(UNK, EOS), 25, per_source=1, without_list=EOS)
    for digit in range(4, 14):
        assert shortlist.ids_for((digit, EOS)).tolist() == [UNK, EOS, digit + 10]
    never_seen = 24
    assert shortlist.ids_for((never_seen, EOS)).tolist() == [UNK, EOS]


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


def test_padding_and_bos_are_never_allowed(run: RunDirectory) -> None:
    make_shortlist(tiny_recipe(), run, run.path, **SIZES)
    shortlist = Shortlist.load(run.shortlist)
    assert not {PAD, BOS} & {*shortlist.always.tolist(), *shortlist.targets.tolist()}
    assert {UNK, EOS} <= set(shortlist.always.tolist())


# --- coverage


def test_coverage_counts_tokens_and_whole_sentences() -> None:
    shortlist = Shortlist(ids(3), ids(0, 0, 0, 0, 0, 1, 3), ids(0, 1, 2))
    pairs = [((4, 3), (0, 3)), ((5, 3), (0, 1, 2)), ((4, 5, 3), ())]
    assert coverage(shortlist, pairs) == Coverage(
        sentences=3, tokens=5, allowed=4 / 5, whole=2 / 3, average_size=3.0
    )


def test_coverage_of_no_pairs_is_zero() -> None:
    shortlist = Shortlist(ids(), ids(0, 0), ids())
    assert coverage(shortlist, []) == Coverage(0, 0, 0.0, 0.0, 0.0)


# --- make_shortlist


def test_shortlist_has_the_runs_vocabulary_size(run: RunDirectory) -> None:
    report = make_shortlist(tiny_recipe(), run, run.path, **SIZES)
    shortlist = Shortlist.load(run.shortlist)
    assert shortlist.source_vocabulary_size == report.vocabulary == VOCABULARY_SIZE
    assert report.always == len(shortlist.always)
    assert (report.valid.sentences, report.valid.allowed) == (6, 1.0)


def test_the_same_run_gives_the_same_shortlist(run: RunDirectory) -> None:
    contents = []
    for _ in range(2):
        make_shortlist(tiny_recipe(), run, run.path, per_source=100, frequent=1)
        contents.append(run.shortlist.read_bytes())
    assert contents[0] == contents[1]
    assert not list(run.path.glob("*.partial"))


def test_coverage_of_translations_is_reported_once_they_exist(run: RunDirectory) -> None:
    assert make_shortlist(tiny_recipe(), run, run.path, **SIZES).translations is None
    run.translations.write_text("1 2 X\n" * 5, encoding="utf-8")
    own = make_shortlist(tiny_recipe(), run, run.path, **SIZES).translations
    assert own is not None
    assert (own.sentences, own.tokens, own.allowed) == (5, 15, 1.0)


def test_translations_of_another_test_set_are_refused(run: RunDirectory) -> None:
    run.translations.write_text("1 2 X\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="has 1 lines and test 5; run `python -m training eval"):
        make_shortlist(tiny_recipe(), run, run.path, **SIZES)


def test_unprepared_run_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run `python -m training prepare RECIPE` first"):
        make_shortlist(tiny_recipe(), RunDirectory(tmp_path), tmp_path, **SIZES)


def test_preparing_again_deletes_the_shortlist(run: RunDirectory, tmp_path: Path) -> None:
    make_shortlist(tiny_recipe(), run, run.path, **SIZES)
    prepare(tiny_recipe(), run, tmp_path)
    assert not run.shortlist.exists()
    assert json.loads(run.report.read_text(encoding="utf-8"))["vocabulary"] == VOCABULARY_SIZE
