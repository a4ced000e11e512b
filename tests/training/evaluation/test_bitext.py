from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from training.data.corpus import CorpusError
from training.evaluation.bitext import Misaligned, check_aligned, find_bitext, read_bitext
from training.refusal import Refusal


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_test_set_is_found_by_name_with_its_tokenised_references(tmp_path: Path) -> None:
    write(tmp_path / "captions/test.de", "Gut.", "", "Ja.")
    (tmp_path / "captions/test.en.gz").write_bytes(gzip.compress(b"Good.\nNothing.\nYes.\n"))
    bitext = find_bitext("captions/test", "de", "en", tmp_path)
    assert bitext.title == "captions/test, de-en"
    assert bitext.sources == ("Gut.", "", "Ja.")
    assert bitext.references == ("Good.", "Nothing.", "Yes.")
    assert bitext.tokenised_references is None
    write(tmp_path / "captions/test.lc.norm.tok.en", "good .", "nothing .", "yes .")
    tokenised = find_bitext("captions/test", "de", "en", tmp_path)
    assert tokenised.tokenised_references == ("good .", "nothing .", "yes .")
    assert tokenised.first(1).tokenised_references == ("good .",)


def test_missing_test_set_error_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"'news/test' has no en side: put it at .*news/test\.en"):
        find_bitext("news/test", "de", "en", tmp_path)


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_empty_reference_is_named_by_file_and_line(tmp_path: Path, blank: str) -> None:
    path = write(tmp_path / "reference", "a", blank, "c")
    with pytest.raises(Misaligned, match="reference, line 2 is empty"):
        read_bitext(path)
    assert issubclass(Misaligned, Refusal)


def test_a_reference_without_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misaligned, match="reference has no lines"):
        read_bitext(write(tmp_path / "reference"))


def test_misaligned_files_error_names_the_shorter_file_and_its_last_line(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", "a", "b", "c")
    source = write(tmp_path / "source", "a", "b")
    with pytest.raises(Misaligned, match=r"source ends after line 2, and .*reference goes on at"):
        read_bitext(reference, source)
    with pytest.raises(
        Misaligned, match=r"reference ends after line 3, and .*long goes on at line 4"
    ):
        check_aligned(tmp_path / "long", "abcd", reference, "abc")
