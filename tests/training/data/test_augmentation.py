from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.augmentation import Augmenter
from training.data.corpus import Pair
from training.recipe import Augmentation, InvalidRecipe

PAIRS = [
    Pair("Anna wohnt seit 2019 in Berlin.", "Anna has lived in Berlin since 2019."),
    Pair("Der Hund schläft.", "The dog is sleeping."),
    Pair("Hinweis: Bitte warten", "Note: Please wait"),
] * 40

KINDS = [each.name for each in fields(Augmentation)]


def augmented(seed: int = 1, name: str = "corpus", **rates: float) -> list[Pair]:
    augmenter = Augmenter(Augmentation(**rates), "de", "en", seed)
    augmenter.begin(name)
    return [pair for step in augmenter.steps(iter(PAIRS)) for pair in step]


def digits(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d", text))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_pairs_and_counts_them(kind: str) -> None:
    augmenter = Augmenter(Augmentation(**{kind: 0.9}), "de", "en", 1)
    made = [pair for step in augmenter.steps(iter(PAIRS), documents=True) for pair in step]
    assert made != PAIRS == augmented()
    assert set(augmenter.counts) == {kind}
    assert augmenter.counts[kind] > 0
    assert all(pair.source and pair.target for pair in made)


def test_passages_join_successive_pairs_of_documents_alone() -> None:
    lines = [Pair(f"Satz Nummer {i}.", f"Sentence number {i}.") for i in range(300)]
    augmenter = Augmenter(Augmentation(passages=0.2), "de", "en", 1)
    assert list(augmenter.steps(iter(lines))) == [[line] for line in lines]
    made = [pair for step in augmenter.steps(iter(lines), documents=True) for pair in step]
    assert [" ".join(side) for side in zip(*made, strict=True)] == [
        " ".join(side) for side in zip(*lines, strict=True)
    ]
    longest = max(len(pair.source.split()) for pair in made)
    assert len(made) < len(lines)
    assert 15 < longest < 45


@given(seed=st.integers(0, 2**32), kind=st.sampled_from(KINDS))
def test_same_seed_and_corpus_give_the_same_pairs(seed: int, kind: str) -> None:
    rates = {kind: 0.5}
    assert augmented(seed, **rates) == augmented(seed, **rates)


def test_another_seed_or_corpus_changes_other_pairs() -> None:
    assert augmented(1, upper_case=0.5) != augmented(2, upper_case=0.5)
    assert augmented(1, "a", upper_case=0.5) != augmented(1, "b", upper_case=0.5)


@given(seed=st.integers(0, 2**32), kind=st.sampled_from(sorted(set(KINDS) - {"dates"})))
def test_both_sides_keep_the_same_digits(seed: int, kind: str) -> None:
    for pair in augmented(seed, **{kind: 0.9}):
        assert digits(pair.source) == digits(pair.target)


@pytest.mark.parametrize("kind", ["codes", "urls", "addresses", "user_names", "emoji", "foreign"])
@given(seed=st.integers(0, 2**32))
def test_spans_without_localisation_stand_on_both_sides(kind: str, seed: int) -> None:
    known = set(re.findall(r"\w+", " ".join(" ".join(pair) for pair in PAIRS)))
    changed = [pair for pair in augmented(seed, **{kind: 0.9}) if pair not in PAIRS]
    assert changed
    for pair in changed:
        new = [word for word in re.findall(r"[^\s.,:()–]+", pair.source) if word not in known]
        assert all(word in pair.target for word in new), pair


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("dates", "Mai", "May"),
        ("amounts", r"\d\.\d{3},\d\d", r"\d,\d{3}\.\d\d"),
        ("times", r"\d\d\.\d\d Uhr", r"\d:\d"),
        ("times", r"\d\d:\d\d Uhr", r"\d:\d"),
        ("times", r"\d\d:\d\d(?! Uhr)", r"\d:\d"),
    ],
)
def test_spans_are_written_as_each_language_does(kind: str, source: str, target: str) -> None:
    made = [pair for pair in augmented(**{kind: 0.9}) if pair not in PAIRS]
    assert any(re.search(source, each.source) and re.search(target, each.target) for each in made)
    if kind == "times":
        assert not any(re.search(r"\d\.\d|Uhr", pair.target) for pair in made)


def test_names_stand_alone_as_well() -> None:
    made = augmented(alone=0.9)
    names = r"[^\W\d_]+( [^\W\d_]+){1,2}"
    assert any(pair.source.istitle() and re.fullmatch(names, pair.source) for pair in made)


def test_rates_that_exceed_all_pairs_are_refused() -> None:
    with pytest.raises(InvalidRecipe):
        Augmentation(numbers=0.6, urls=0.6)


def test_languages_without_carriers_get_spans_alone() -> None:
    augmenter = Augmenter(Augmentation(dates=0.9), "x-one", "fr", 1)
    for step in augmenter.steps(iter(PAIRS)):
        assert not any(" am " in pair.source for pair in step)
    assert augmenter.counts["dates"] > 0
