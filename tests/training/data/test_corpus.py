from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.corpus import CorpusError, Pair, find_side, read_pairs, translated_side
from training.data.generated import LENGTH, Generator, generate, reverse
from training.recipe import Corpus

CORPUS = Corpus(name="found/talks", licence="CC0-1.0")


def put(directory: Path, language: str, text: str | bytes, zipped: bool = False) -> Path:
    path = directory / f"found/talks.{language}{'.gz' if zipped else ''}"
    path.parent.mkdir(exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def read(directory: Path) -> list[Pair]:
    return list(read_pairs(CORPUS, "de", "en", directory))


def test_text_is_read_unchanged_without_line_ends(tmp_path: Path) -> None:
    put(tmp_path, "de", "  a\tb \r\n\nlast")
    put(tmp_path, "en", "x\ny\nz\n", zipped=True)
    assert read(tmp_path) == [Pair("  a\tb ", "x"), Pair("", "y"), Pair("last", "z")]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_newlines_split_lines(tmp_path: Path, separator: str, zipped: bool) -> None:
    put(tmp_path, "de", f"a{separator}b\nc\n", zipped=zipped)
    put(tmp_path, "en", "x\ny\n", zipped=zipped)
    assert read(tmp_path) == [Pair(f"a{separator}b", "x"), Pair("c", "y")]


def test_missing_side_error_names_where_to_put_it_and_its_origin(tmp_path: Path) -> None:
    put(tmp_path, "de", "a\n")
    elsewhere = replace(CORPUS, origin="on the page of the shared task")
    with pytest.raises(CorpusError) as refused:
        list(read_pairs(elsewhere, "de", "en", tmp_path))
    for part in (tmp_path / "found/talks.en", "--data", "TRAINING_DATA", elsewhere.origin):
        assert str(part) in str(refused.value)


def test_the_plain_file_is_preferred(tmp_path: Path) -> None:
    put(tmp_path, "de", "zipped\n", zipped=True)
    plain = put(tmp_path, "de", "plain\n")
    assert find_side("found/talks", "de", tmp_path) == plain


def broken_sides() -> dict[str, tuple[str, bytes]]:
    whole = gzip.compress("".join(f"line {i * i}\n" for i in range(5000)).encode())
    middle = len(whole) // 2
    scrambled = whole[:middle] + b"\xff" * 64 + whole[middle + 64 :]
    return {
        "shorter": ("de", b"a\n"),
        "longer": ("de", b"a\n" * 6000),
        "not UTF-8": ("de", b"gut\nschlecht \xff\n"),
        "truncated": ("de.gz", whole[:middle]),
        "not gzip at all": ("de.gz", b"plain text\n"),
        "a wrong checksum": ("de.gz", whole[:-8] + b"\0" * 4 + whole[-4:]),
        "scrambled": ("de.gz", scrambled),
    }


@pytest.mark.parametrize("damage", broken_sides())
def test_a_broken_side_is_named(tmp_path: Path, damage: str) -> None:
    language, content = broken_sides()[damage]
    put(tmp_path, "en", "".join(f"{i}\n" for i in range(5000)))
    path = put(tmp_path, language, content)
    with pytest.raises(CorpusError, match=str(path)):
        read(tmp_path)


def test_translated_side_is_read_from_the_run(tmp_path: Path) -> None:
    made = replace(CORPUS, translated="source", translator="bundles/small-en-de")
    put(tmp_path, "en", "Hello.\n")
    translated = tmp_path / "translated"
    with pytest.raises(CorpusError, match="into de by bundles/small-en-de; run `python"):
        list(read_pairs(made, "de", "en", tmp_path, translated))
    path = translated_side(made, "de", translated)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"Hallo.\n"))
    assert path.is_relative_to(translated / "small-en-de")
    assert list(read_pairs(made, "de", "en", tmp_path, translated)) == [Pair("Hallo.", "Hello.")]


def test_a_generated_corpus_needs_no_files(tmp_path: Path) -> None:
    made = Corpus(name="anything", licence="CC0-1.0", generator="reverse", pairs=3)
    assert len(list(read_pairs(made, "x-digits", "x-reversed", tmp_path))) == 3


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


def test_own_corpora_are_found_beside_those_of_the_data_directory(tmp_path: Path) -> None:
    own = Corpus(name="letters/forms")
    pairs = list(read_pairs(own, "de", "en", tmp_path))
    assert Pair("Mit freundlichen Grüßen", "Kind regards") in pairs
    assert all(pair.is_full for pair in pairs)
    assert len(set(pairs)) == len(pairs)
    (tmp_path / "letters").mkdir()
    for language in ("de", "en"):
        (tmp_path / f"letters/forms.{language}").write_text("a\n")
    assert list(read_pairs(own, "de", "en", tmp_path)) == [Pair("a", "a")]
