from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from training.data.corpus import CorpusError, Pair, find_side, read_pairs, translated_side
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


@pytest.mark.parametrize("zipped", [False, True])
def test_plain_and_gzipped_sides_are_paired_by_line(tmp_path: Path, zipped: bool) -> None:
    put(tmp_path, "de", "Guten Tag.\nÄpfel\n", zipped=zipped)
    put(tmp_path, "en", "Hello.\nApples\n")
    assert read(tmp_path) == [Pair("Guten Tag.", "Hello."), Pair("Äpfel", "Apples")]


def test_text_is_read_unchanged_without_line_ends(tmp_path: Path) -> None:
    put(tmp_path, "de", "  a\tb \r\n\nlast")
    put(tmp_path, "en", "x\ny\nz\n")
    assert [pair.source for pair in read(tmp_path)] == ["  a\tb ", "", "last"]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_newlines_split_lines(tmp_path: Path, separator: str, zipped: bool) -> None:
    put(tmp_path, "de", f"a{separator}b\nc\n", zipped=zipped)
    put(tmp_path, "en", "x\ny\n", zipped=zipped)
    assert read(tmp_path) == [Pair(f"a{separator}b", "x"), Pair("c", "y")]


def test_missing_side_error_names_where_to_put_it(tmp_path: Path) -> None:
    put(tmp_path, "de", "a\n")
    with pytest.raises(CorpusError) as refused:
        read(tmp_path)
    message = str(refused.value)
    assert "'found/talks' has no en side" in message
    assert str(tmp_path / "found/talks.en") in message
    assert str(tmp_path / "found/talks.en.gz") in message
    assert "--data" in message and "TRAINING_DATA" in message


def test_the_plain_file_is_preferred(tmp_path: Path) -> None:
    put(tmp_path, "de", "zipped\n", zipped=True)
    plain = put(tmp_path, "de", "plain\n")
    assert find_side("found/talks", "de", tmp_path) == plain


@pytest.mark.parametrize(("shorter", "longer"), [("de", "en"), ("en", "de")])
def test_sides_of_different_length_are_named(tmp_path: Path, shorter: str, longer: str) -> None:
    path = put(tmp_path, shorter, "a\n")
    put(tmp_path, longer, "a\nb\nc\nd\n")
    with pytest.raises(CorpusError, match=f"{path} ends before line 2, and .*talks.{longer} has 4"):
        read(tmp_path)


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    path = put(tmp_path, "de", b"gut\nschlecht \xff\n")
    put(tmp_path, "en", "a\nb\n")
    with pytest.raises(CorpusError, match=f"{path}, line 2 is not UTF-8"):
        read(tmp_path)


def broken_gzips() -> dict[str, bytes]:
    whole = gzip.compress("".join(f"line {i * i}\n" for i in range(5000)).encode())
    middle = len(whole) // 2
    return {
        "truncated": whole[:middle],
        "not gzip at all": b"plain text\n",
        "a wrong checksum": whole[:-8] + b"\0" * 4 + whole[-4:],
        "scrambled": whole[:middle] + b"\xff" * 64 + whole[middle + 64 :],
    }


@pytest.mark.parametrize("damage", broken_gzips())
def test_a_broken_gzip_file_is_named(tmp_path: Path, damage: str) -> None:
    put(tmp_path, "en", "".join(f"{i}\n" for i in range(5000)))
    path = tmp_path / "found/talks.de.gz"
    path.write_bytes(broken_gzips()[damage])
    with pytest.raises(CorpusError, match=f"{path} is not a whole gzip file"):
        read(tmp_path)


def test_missing_corpus_error_names_its_origin(tmp_path: Path) -> None:
    elsewhere = replace(CORPUS, origin="on the page of the shared task")
    with pytest.raises(CorpusError, match="TRAINING_DATA; it is on the page of the shared task"):
        list(read_pairs(elsewhere, "de", "en", tmp_path))


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
