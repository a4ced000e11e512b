from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from training.evaluation.bitext import Misaligned, find_bitext, read_bitext


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


@pytest.mark.parametrize(
    ("reference", "source", "named"),
    [
        (["a", "", "c"], None, "reference, line 2"),
        (["a", "  ", "c"], None, "reference, line 2"),
        ([], None, "reference"),
        (["a", "b", "c"], ["a", "b"], "source ends after line 2"),
        (["a", "b", "c"], [*"abcd"], "reference ends after line 3"),
    ],
)
def test_empty_and_misaligned_lines_are_named(
    tmp_path: Path, reference: list[str], source: list[str] | None, named: str
) -> None:
    path = write(tmp_path / "reference", *reference)
    with pytest.raises(Misaligned, match=named):
        read_bitext(path, None if source is None else write(tmp_path / "source", *source))
