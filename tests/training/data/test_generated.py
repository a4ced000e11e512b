from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.generated import LENGTH, Generator, generate, reverse

GENERATORS: list[Generator] = ["copy", "reverse", "reverse-any-length"]
REVERSING: list[Generator] = ["reverse", "reverse-any-length"]


def test_reverse_of_the_documented_example() -> None:
    assert " ".join(reverse(["0", "1", "5", "9", "0", "3", "5", "2", "5"])) == "5 2 X 3 X 9 5 1 0"


@given(digits=st.lists(st.sampled_from("0123456789")))
def test_every_second_occurrence_is_an_x(digits: list[str]) -> None:
    result = reverse(digits)[::-1]
    assert len(result) == len(digits)
    counted = Counter(digits)
    kept = Counter(result)
    assert all(kept[digit] == (count + 1) // 2 for digit, count in counted.items())
    assert kept["X"] == sum(count // 2 for count in counted.values())
    assert all(new in (old, "X") for old, new in zip(digits, result, strict=True))


def test_copy_repeats_the_source() -> None:
    pairs = list(generate("copy", "train", 50))
    assert all(source == target and len(source.split()) == LENGTH for source, target in pairs)
    assert len(set(pairs)) == 50


@pytest.mark.parametrize("generator", REVERSING)
def test_pairs_are_digits_and_their_reversal(generator: Generator) -> None:
    for source, target in generate(generator, "train", 50):
        assert set(source.split()) <= set("0123456789")
        assert target.split() == reverse(source.split())


def test_sequences_have_ten_digits_or_any_length() -> None:
    lengths = {
        generator: Counter(len(source.split()) for source, _ in generate(generator, "train", 400))
        for generator in REVERSING
    }
    assert lengths["reverse"] == {LENGTH: 400}
    assert set(lengths["reverse-any-length"]) == set(range(1, LENGTH + 1))
    assert lengths["reverse-any-length"].most_common(1)[0][0] == LENGTH


@pytest.mark.parametrize("generator", GENERATORS)
def test_corpus_name_seeds_the_generator(generator: Generator) -> None:
    made = list(generate(generator, "train", 20))
    assert list(generate(generator, "train", 20)) == made
    assert list(generate(generator, "train", 5)) == made[:5]
    assert list(generate(generator, "valid", 20)) != made
