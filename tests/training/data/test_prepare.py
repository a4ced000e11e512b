from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import Tokenizer
from tests.support.raising import FULL, raiser
from tests.support.tiny_training import prepared, tiny_recipe, with_network
from training.checkpoint import CheckpointError
from training.data import vocabulary
from training.data.clean_text import CleanText
from training.data.corpus import CorpusError, Pair, read_pairs, sampled
from training.data.generated import generate
from training.data.prepare import is_prepared, prepare
from training.data.shards import Shards, ShardWriter
from training.disk import CannotWrite
from training.recipe import Augmentation, Corpus, InvalidRecipe, Recipe, Vocabulary
from training.run_directory import RunDirectory


def found_recipe() -> Recipe:
    """The tiny recipe on corpora that are files."""
    one, two, held, test = (
        Corpus(name=name, licence="CC0-1.0") for name in ("one", "two", "held", "test")
    )
    return with_data(tiny_recipe(), train=(one, two), valid=held, test=test, max_length=5)


def put(directory: Path, name: str, pairs: list[tuple[str, str]], zipped: bool = False) -> None:
    for language, lines in zip(("x-digits", "x-reversed"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines).encode()
        path = directory / f"{name}.{language}{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(text) if zipped else text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    put(tmp_path, "one", [("1 2 3", "3 2 1"), ("", "1"), ("1  2 3", "3 2 1")])
    put(tmp_path, "two", [("4 5", "5 4"), ("1 2 3 4 5 6", "6 5 4 3 2 1")], zipped=True)
    put(tmp_path, "held", [("2 4", "4 2"), ("1 1 1 1 1 1", "X 1 X 1 X 1")])
    put(tmp_path, "test", [("3 4", "4 3")])
    return tmp_path


@pytest.fixture
def run(data: Path) -> RunDirectory:
    """A run of ``found_recipe`` that is prepared."""
    run = RunDirectory(data / "run")
    prepare(found_recipe(), run, data)
    return run


def test_prepare_warns_of_shifted_lines(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [" ".join("1" * (1 + i * i * 31 % 17)) for i in range(400)]
    for shift, warned in ((0, False), (1, True)):
        put(data, "two", list(zip(texts, texts[shift:], strict=False)), zipped=True)
        caplog.clear()
        prepare(found_recipe(), RunDirectory(data / f"run{shift}"), data)
        assert ("does one side lack a line" in caplog.text) is warned


def test_shards_hold_the_text_in_tokens(tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_recipe())
    tokenizer = Tokenizer.load(run.tokenizer)
    shards = Shards.open(run.shards("train"))
    pairs = list(generate("reverse", "train", 200))
    assert len(shards) == len(pairs)
    for i, (source, target) in enumerate(pairs):
        assert tokenizer.decode(shards.source[i].tolist()) == source
        assert tokenizer.decode(shards.target[i].tolist()) == target
    assert len(Shards.open(run.shards("valid"))) == 6
    assert Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8"))) == tiny_recipe()


def test_report_counts_the_pairs_that_each_filter_dropped(data: Path) -> None:
    put(data, "held", [("2 4", "4 2"), ("1 1 1 1 1 1", "X 1 X 1 X 1"), ("", ""), ("1 2", "")])
    run = RunDirectory(data / "run")
    report = prepare(found_recipe(), run, data)
    assert report["train"] == {
        "one": {"read": 3, "kept": 1, "used": 1, "dropped": {"empty": 1, "duplicate": 1}},
        "two": {"read": 2, "kept": 1, "used": 1, "dropped": {"too long": 1}},
    }
    assert report["pairs"] == 2
    assert (report["source tokens"], report["target tokens"]) == (5, 5)
    assert (report["valid pairs"], report["valid with too many pieces"]) == (1, 1)
    assert report["valid empty"] == 2
    assert json.loads(run.report.read_text(encoding="utf-8")) == report


def test_vocabulary_is_learned_from_the_cleaned_training_text(run: RunDirectory) -> None:
    tokenizer = Tokenizer.load(run.tokenizer)
    pieces = {piece.strip("▁") for piece in tokenizer.pieces(range(tokenizer.vocabulary_size))}
    assert set("12345") <= pieces
    assert not {"6", "X"} & pieces


def test_preparing_again_gives_the_same(data: Path) -> None:
    run = RunDirectory(data / "run")
    contents = []
    for _ in range(2):
        prepare(found_recipe(), run, data)
        files = sorted(path for path in run.path.rglob("*") if path.is_file())
        contents.append({path.name: path.read_bytes() for path in files})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("name", ["one", "held"])
def test_corpus_without_pairs_after_cleaning_is_named(data: Path, name: str) -> None:
    recipe = found_recipe()
    if name == "one":
        recipe = with_data(recipe, train=recipe.data.train[:1])
    put(data, name, [("1 2 3 4 5 6", "6 5 4 3 2 1")])
    with pytest.raises(CorpusError, match=f"no pair of {name} is left"):
        prepare(recipe, RunDirectory(data / "run"), data)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_that_the_text_cannot_fill_has_all_pieces_and_a_warning(
    data: Path, kind: Literal["unigram", "bpe"], caplog: pytest.LogCaptureFixture
) -> None:
    recipe = replace(found_recipe(), vocabulary=Vocabulary(size=5000, kind=kind))
    report = prepare(recipe, RunDirectory(data / "run"), data)
    assert 5 < report["vocabulary"] < 5000
    assert f"5,000: the vocabulary has {report['vocabulary']}" in caplog.text


def test_a_vocabulary_is_learned_from_a_sample_of_the_recipes_size(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[str] = []
    learn = vocabulary.train_tokenizer

    def recording(texts: Iterable[str], *arguments: Any, **options: Any) -> None:
        learned.extend(texts)
        learn(learned, *arguments, **options)

    monkeypatch.setattr(vocabulary, "train_tokenizer", recording)
    recipe = found_recipe()
    recipe = replace(recipe, vocabulary=replace(recipe.vocabulary, sample=2))
    prepare(recipe, RunDirectory(data / "run"), data)
    assert len(learned) == 2 * 2


def test_an_empty_validation_set_is_refused_before_anything_is_cleaned(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.data.prepare.clean_corpora", None)
    put(data, "empty", [("", "1")])
    recipe = with_data(found_recipe(), valid=Corpus(name="empty"))
    with pytest.raises(CorpusError, match="no pair of empty is left"):
        prepare(recipe, RunDirectory(data / "run"), data)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyboardInterrupt(), KeyboardInterrupt), (FULL, CannotWrite), (None, CorpusError)],
)
def test_failed_preparation_keeps_the_previous_one(
    data: Path,
    run: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | None,
    raised: type[BaseException],
) -> None:
    before = contents_of(run)
    if error is None:
        (data / "held.x-digits").unlink()
    else:
        monkeypatch.setattr(ShardWriter, "append", raiser(error))
    with pytest.raises(raised):
        prepare(found_recipe(), run, data)
    assert contents_of(run) == before


def test_interrupt_while_shards_are_replaced_leaves_no_shards(
    data: Path, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_whole = Path.replace

    def interrupted(path: Path, to: Path) -> Path:
        if to.parent == run.path:
            raise KeyboardInterrupt
        return replace_whole(path, to)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(found_recipe(), run, data)
    with pytest.raises(FileNotFoundError, match="prepare"):
        Shards.open(run.shards("train"))


def test_corpus_is_repeated_by_the_factor_of_the_recipe(data: Path) -> None:
    recipe, run = found_recipe(), RunDirectory(data / "run")
    one, two = recipe.data.train
    prepare(with_data(recipe, train=(replace(one, repeat=3), two)), run, data)
    shards, tokenizer = Shards.open(run.shards("train")), run.tokenizers().source
    sources = [tokenizer.decode(shards.source[i].tolist()) for i in range(len(shards))]
    assert sources == ["1 2 3"] * 3 + ["4 5"]


def test_bidirectional_run_has_both_directions_with_their_tags(data: Path) -> None:
    recipe = with_data(found_recipe(), bidirectional=True)
    run = RunDirectory(data / "run")
    report = prepare(recipe, run, data)
    assert (report["pairs"], report["examples in an epoch"]) == (2, 4)
    tokenizer = run.tokenizers().source
    forth, back = (tokenizer.id_of(tag) for tag in ("<2x-reversed>", "<2x-digits>"))
    assert tokenizer.decode((forth, back)) == ""
    assert forth not in tokenizer.encode("<2x-reversed>")

    def pairs(path: Path) -> list[tuple[int, str, str]]:
        shards = Shards.open(path)
        sides = [(shards.source[i].tolist(), shards.target[i].tolist()) for i in range(len(shards))]
        return [
            (source[0], tokenizer.decode(source), tokenizer.decode(target))
            for source, target in sides
        ]

    assert pairs(run.shards("train")) == [
        (forth, "1 2 3", "3 2 1"),
        (back, "3 2 1", "1 2 3"),
        (forth, "4 5", "5 4"),
        (back, "5 4", "4 5"),
    ]
    assert pairs(run.shards("valid")) == [(forth, "2 4", "4 2"), (back, "4 2", "2 4")]
    directions = run.shards_of("valid", recipe.data.valid, recipe.data)
    assert pairs(directions["x-digits", "x-reversed"]) == [(forth, "2 4", "4 2")]
    assert pairs(directions["x-reversed", "x-digits"]) == [(back, "4 2", "2 4")]


def test_network_of_several_pairs_has_every_direction_and_holds_out_every_language(
    data: Path,
) -> None:
    for name, sources, targets in (
        ("other", ["6 7", "8 8 8 8", "1 1 1 1"], ["7 6", "3 3 3 3", "2 2 2 2"]),
        ("held-other", ["6"], ["7"]),
        ("few", ["1 1 1 1"], ["2 2 2 2"]),
    ):
        for language, lines in (("x-digits", sources), ("x-other", targets)):
            (data / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    put(data, "kept-out", [("8 8 8 8", "X 8 X 8")])
    other, valid, test = (
        Corpus(name=name, source="x-digits", target="x-other")
        for name in ("other", "held-other", "few")
    )
    recipe = found_recipe()
    recipe = with_data(
        replace(recipe, vocabulary=replace(recipe.vocabulary, size=40)),
        train=(*recipe.data.train, other),
        more_valid=(valid,),
        more_test=(test,),
        held_out=("few", "kept-out"),
    )
    run = RunDirectory(data / "run")
    report = prepare(recipe, run, data)
    tokenizer = run.tokenizers().source
    shards = Shards.open(run.shards("train"))
    first = [int(shards.source[i][0]) for i in range(len(shards))]
    tags = [tokenizer.id_of(tag) for tag in ("<2x-reversed>", "<2x-reversed>", "<2x-other>")]
    assert first == tags
    assert report["train"]["other, x-digits-x-other"]["dropped"] == {"held out": 2}
    assert report["leaked"]["few, x-digits-x-other"] == {"pairs": 1, "leaked": 0}
    assert report["more valid"]["held-other, x-digits-x-other"]["valid pairs"] == 1
    (path,) = run.shards_of("more-valid/held-other, x-digits-x-other", valid, recipe.data).values()
    assert tokenizer.decode(Shards.open(path).target[0].tolist()) == "7"
    assert is_prepared(recipe, run, data)


def test_a_tag_counts_towards_the_longest_side(data: Path) -> None:
    put(data, "two", [("1 2 3 4 5", "5 4 3 2 1")])
    one_way = prepare(found_recipe(), RunDirectory(data / "one"), data)
    both_ways = prepare(
        with_data(found_recipe(), bidirectional=True), RunDirectory(data / "b"), data
    )
    assert (one_way["pairs"], one_way["too many pieces"]) == (2, 0)
    assert (both_ways["pairs"], both_ways["too many pieces"]) == (1, 1)


def separate(recipe: Recipe) -> Recipe:
    vocabulary = replace(recipe.vocabulary, shared=False)
    return replace(with_network(recipe, tying="decoder"), vocabulary=vocabulary)


def test_sides_may_have_vocabularies_and_tokenizers_of_their_own(data: Path) -> None:
    put(data, "one", [("1 2 3", "X X X")])
    run = RunDirectory(data / "run")
    for recipe in (separate(found_recipe()), found_recipe(), separate(found_recipe())):
        report = prepare(recipe, run, data)
        tokenizers, shared = run.tokenizers(), recipe.vocabulary.shared
        # The tokenizers of an earlier preparation do not stay.
        assert (tokenizers.source is tokenizers.target) == run.tokenizer.exists() == shared
    assert tokenizers.source.vocabulary_size == report["source vocabulary"] == 9
    assert tokenizers.target.vocabulary_size == report["vocabulary"] == 7
    shards = Shards.open(run.shards("train"))
    assert tokenizers.source.decode(shards.source[0].tolist()) == "1 2 3"
    assert tokenizers.target.decode(shards.target[0].tolist()) == "X X X"


@pytest.mark.parametrize("change", [found_recipe, lambda: separate(found_recipe())])
def test_a_run_that_starts_from_another_takes_its_vocabulary(
    data: Path, change: Callable[[], Recipe]
) -> None:
    first = replace(change(), name="first")
    prepare(first, RunDirectory(data / "first"), data)
    put(data, "one", [("7 8 9", "9 8 7")])
    second, run = replace(first, name="second", initial="first"), RunDirectory(data / "second")
    prepare(second, run, data)
    learned, taken = RunDirectory(data / "first").tokenizers(), run.tokenizers()
    for ours, theirs in ((taken.source, learned.source), (taken.target, learned.target)):
        everything = range(theirs.vocabulary_size)
        assert ours.pieces(everything) == theirs.pieces(everything)
        assert ours.vocabulary_size == theirs.vocabulary_size


@pytest.mark.parametrize(
    "change",
    [
        lambda r: replace(r, vocabulary=replace(r.vocabulary, size=r.vocabulary.size + 1)),
        lambda r: with_data(r, source="x-other"),
    ],
)
def test_a_run_of_another_vocabulary_or_language_learns_its_own(
    data: Path, change: Callable[[Recipe], Recipe]
) -> None:
    first = replace(found_recipe(), name="first")
    prepare(first, RunDirectory(data / "first"), data)
    for name in ("one", "two", "held", "test"):
        put(data, name, [("7 8 9", "9 8 7")])
        (data / f"{name}.x-other").write_text("7 8 9\n", encoding="utf-8")
    run = RunDirectory(data / "second")
    prepare(change(replace(first, initial="first")), run, data)
    tokenizer = run.tokenizers().source
    assert "▁9" in tokenizer.pieces(range(tokenizer.vocabulary_size))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda r: replace(r, initial="nowhere"), "nowhere"),
        (separate, "let both share, or neither"),
    ],
)
def test_start_from_a_run_that_does_not_fit_is_refused(
    data: Path, change: Callable[[Recipe], Recipe], complaint: str
) -> None:
    prepare(found_recipe(), RunDirectory(data / "first"), data)
    recipe = change(replace(found_recipe(), initial="first"))
    with pytest.raises(InvalidRecipe, match=complaint):
        prepare(recipe, RunDirectory(data / "second"), data)


def test_preparation_is_valid_for_equal_data_settings_and_text_only(data: Path) -> None:
    put(data, "one", [("1 2 3", "3 2 1"), ("4 5 1", "1 5 4")])
    recipe, run = found_recipe(), RunDirectory(data / "run")
    assert not is_prepared(recipe, run, data)
    prepare(recipe, run, data)
    assert is_prepared(replace(recipe, seed=5), run, data)
    assert not is_prepared(with_data(recipe, max_length=4), run, data)
    report = run.report.read_text(encoding="utf-8")
    for damaged in ("{", "{}"):
        run.report.write_text(damaged, encoding="utf-8")
        assert not is_prepared(recipe, run, data)
    run.report.write_text(report, encoding="utf-8")
    assert is_prepared(recipe, run, data)
    # Other text of the same size: one side is rotated by a line.
    put(data, "one", [("1 2 3", "1 5 4"), ("4 5 1", "3 2 1")])
    assert not is_prepared(recipe, run, data)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_test_pairs_with_a_side_in_the_training_text_are_counted_and_warned_of(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(data, "one", [("1 2 3 4", "4 3 2 1"), ("5 4 3 2", "2 3 4 5"), ("1 2", "2 1")])
    put(data, "held", [("1 2 3 4", "0 0 0 0"), ("9 9 9 9", "2 3 4 5"), ("2 4 6 8", "8 6 4 2")])
    put(data, "test", [("1 2", "2 1"), ("2 4 6 8", "8 6 4 2")])
    report = prepare(found_recipe(), RunDirectory(data / "run"), data)
    leaked = {"held": {"pairs": 3, "leaked": 2}, "test": {"pairs": 2, "leaked": 0}}
    assert report["leaked"] == leaked
    assert sum("2 of the 3 pairs of held" in line for line in warnings(caplog)) == 1
    assert not [line for line in warnings(caplog) if "pairs of test" in line]


def test_filter_that_drops_an_unusual_share_is_warned_of(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(data, "one", [(f"{i} 2", f"2 {i}") for i in range(30)] + [("", "1")] * 3)
    put(data, "two", [(f"{i} 3", f"3 {i}") for i in range(30)] + [("0 3", "3 0")] * 30)
    prepare(found_recipe(), RunDirectory(data / "run"), data)
    (warned,) = warnings(caplog)
    assert warned.startswith("one: 9%") and "'empty'" in warned


def test_a_sample_is_spread_evenly() -> None:
    pairs = [Pair(str(i), str(i)) for i in range(10)]
    assert list(sampled(pairs, 10, most=10)) == pairs
    assert [pair.source for pair in sampled(pairs, 10, most=3)] == ["0", "4", "7"]
    assert "".join(pair.source for pair in sampled(pairs, 10, most=5, run=2)) == "01458"
    assert list(sampled(pairs[:0], 0, most=3)) == []


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 9))
def test_sample_has_as_many_pairs_as_wanted_in_their_order(count: int, most: int, run: int) -> None:
    pairs = [Pair(str(i), "") for i in range(count)]
    places = [int(pair.source) for pair in sampled(pairs, count, most, run)]
    assert places == sorted(set(places))
    assert len(places) == min(most, count)
    breaks = sum(1 for one, other in itertools.pairwise(places) if other != one + 1)
    assert breaks <= (len(places) - 1) // run


def contents_of(run: RunDirectory) -> dict[Path, bytes]:
    """The files of a run, without those of an unfinished preparation."""
    files = {path for path in run.path.rglob("*") if path.is_file()}
    files -= {*(run.path / "prepare.partial").rglob("*")}
    return {path: path.read_bytes() for path in files}


def with_data(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, data=replace(recipe.data, **changes))


@given(count=st.integers(1, 60), repeat=st.floats(0.01, 4), seed=st.integers(0, 9))
def test_passes_have_every_pair_equally_often_and_spread_a_fraction_evenly(
    tmp_path_factory: pytest.TempPathFactory, count: int, repeat: float, seed: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_text("".join(f"{i}\n" for i in range(count)), encoding="utf-8")
    text = CleanText(Corpus(name="one"), path, path, count)
    turns = [[int(pair.source) for pair in turn] for turn in text.passes(repeat, seed)]
    assert turns == [[int(pair.source) for pair in turn] for turn in text.passes(repeat, seed)]
    whole, part = int(repeat), round(count * (repeat % 1))
    assert turns[:whole] == [[*range(count)]] * whole
    assert [len(turn) for turn in turns[whole:]] == [part] * (part > 0)
    for turn in turns[whole:]:
        gaps = {after - before for before, after in itertools.pairwise(turn)}
        assert gaps <= {count // part, -(-count // part)}


def test_another_seed_repeats_other_pairs_and_prepares_again(data: Path) -> None:
    put(data, "one", [(f"{i} 2", f"2 {i}") for i in range(9)])
    recipe = found_recipe()
    one, two = recipe.data.train
    recipe = with_data(recipe, train=(replace(one, repeat=1.5), two))
    run = RunDirectory(data / "run")
    report = prepare(recipe, run, data)
    assert report["pairs"] == 9 + 4 + 1
    others = [replace(recipe, seed=seed) for seed in range(2, 9)]
    assert not any(is_prepared(other, run, data) for other in others)
    made = [prepare(other, RunDirectory(data / "other"), data)["shards"] for other in others]
    assert any(shards != report["shards"] for shards in made)


@pytest.mark.parametrize(("temperature", "repeats"), [(1, (1, 1)), (2, (3, 1)), (1e9, (9, 1))])
def test_temperature_repeats_smaller_corpora_more_often(
    data: Path, temperature: float, repeats: tuple[float, float]
) -> None:
    put(data, "one", [("1 2 3", "3 2 1")])
    put(data, "two", [(f"{i} 2", f"2 {i}") for i in range(9)], zipped=True)
    recipe = with_data(found_recipe(), temperature=temperature)
    report = prepare(recipe, RunDirectory(data / "run"), data)
    assert tuple(each["repeat"] for each in report["train"].values()) == repeats
    assert report["pairs"] == repeats[0] + 9


def test_temperature_beside_a_repeat_is_refused() -> None:
    one, two = found_recipe().data.train
    with pytest.raises(InvalidRecipe, match="`repeat` of two"):
        with_data(found_recipe(), train=(one, replace(two, repeat=2)), temperature=5)


@pytest.mark.parametrize("kind", ["word", "unigram"])
def test_trained_run_refuses_other_text_and_keeps_its_files(
    data: Path, run: RunDirectory, kind: str
) -> None:
    before = contents_of(run)
    (run.path / "checkpoint-00000004.pt").touch()
    # The same text is the same run.
    prepare(found_recipe(), run, data)
    added = ("9 8 7", "7 8 9") if kind == "unigram" else ("1 3 2", "2 3 1")
    put(data, "one", [("1 2 3", "3 2 1"), added])
    with pytest.raises(CheckpointError, match="other text"):
        prepare(found_recipe(), run, data)
    assert {path: path.read_bytes() for path in before} == before


def test_new_preparation_removes_tuned_decoding_settings(data: Path) -> None:
    run = RunDirectory(data / "run")
    run.path.mkdir()
    run.decoding.write_text("{}", encoding="utf-8")
    prepare(found_recipe(), run, data)
    assert not run.decoding.exists()


def test_report_has_the_share_of_each_domain_and_the_largest_is_bounded(data: Path) -> None:
    put(data, "one", [(f"{i} 2", f"2 {i}") for i in range(9)])
    put(data, "two", [(f"{i} 5", f"5 {i}") for i in range(2)])
    recipe = found_recipe()
    one, two = recipe.data.train
    one, two = replace(one, domain="talk", most=6), replace(two, domain="news")
    recipe = with_data(recipe, train=(one, two))
    report = prepare(recipe, RunDirectory(data / "run"), data)
    assert (report["train"]["one"]["kept"], report["train"]["one"]["used"]) == (9, 6)
    assert report["domains"] == {"talk": 0.75, "news": 0.25}
    bounded = with_data(recipe, largest_domain=0.5)
    with pytest.raises(InvalidRecipe, match="talk"):
        prepare(bounded, RunDirectory(data / "bounded"), data)


def test_pairs_of_test_sets_named_by_the_recipe_are_held_out(data: Path) -> None:
    encoded = ("1 2 &#51; 9", "9 3 2 1")
    put(data, "one", [("1 2 3 4", "4 3 2 1"), ("5 6 7 8", "8 7 6 5"), encoded])
    put(data, "tested", [("1 2 3 4", "9 9 9 9"), encoded])
    recipe = found_recipe()
    recipe = with_data(recipe, train=recipe.data.train[:1], held_out=("tested",))
    report = prepare(recipe, RunDirectory(data / "run"), data)
    assert report["train"]["one"]["dropped"] == {"held out": 2}


def test_pairs_that_a_corpus_holds_out_are_a_validation_set_and_in_no_training_text(
    data: Path,
) -> None:
    lines = [(f"{i} 2 3 4", f"4 3 2 {i}") for i in range(9)]
    put(data, "one", lines)
    put(data, "two", [*lines[:2], ("5 5", "5 5")])
    (data / "one.meta").write_text("".join(f"{i}\n" for i in range(9)), encoding="utf-8")
    recipe = found_recipe()
    one, two = recipe.data.train
    recipe = with_data(recipe, train=(replace(one, hold_out=4), two))
    run = RunDirectory(data / "run")
    report = prepare(recipe, run, data)
    assert report["train"]["one"] | {"dropped": {}} == {
        "read": 6, "kept": 6, "used": 6, "dropped": {}
    }  # fmt: skip
    assert report["train"]["two"]["dropped"] == {"held out": 1, "duplicate": 1}
    assert report["leaked"]["held-out/one"] == {"pairs": 3, "leaked": 0}
    assert report["held out"]["one"]["valid pairs"] == 3
    assert (run.held_out / "one.meta").read_text(encoding="utf-8") == "0\n4\n8\n"
    held = read_pairs(one, "x-digits", "x-reversed", run.held_out)
    assert [*held] == [lines[i] for i in (0, 4, 8)]
    assert len(Shards.open(run.shards("held-out/one"))) == 3
    prepare(found_recipe(), run, data)
    assert not run.held_out.exists()


def test_augmented_text_is_prepared_alike_by_the_same_seed_alone(data: Path) -> None:
    put(data, "one", [(f"{i} 2", f"2 {i}") for i in range(9)])
    recipe = with_data(found_recipe(), augmentation=Augmentation(joined=0.5), max_length=12)
    run = RunDirectory(data / "run")
    first = prepare(recipe, run, data)
    assert first["augmented"]["joined"] > 0
    assert prepare(recipe, RunDirectory(data / "again"), data)["shards"] == first["shards"]
    other = replace(recipe, seed=2)
    assert not is_prepared(other, run, data)
    assert prepare(other, RunDirectory(data / "other"), data)["shards"] != first["shards"]
