from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.evaluation.texts import BAD, BITEXT, GOOD, REFERENCES
from training.evaluation import comparison
from training.evaluation.bitext import Bitext, Misaligned, find_bitext, read_bitext
from training.evaluation.comparison import compare
from training.evaluation.diagnostics import diagnose, has_loop, is_copied, repeats
from training.evaluation.scores import (
    TOKENISED_BLEU,
    UnknownTokenisation,
    bleu_for,
    lower_cased_and_tokenised,
    score,
    sentence_scores,
)


def test_scores_and_intervals_are_those_of_sacrebleus_own_command(tmp_path: Path) -> None:
    (tmp_path / "measured").write_text("".join(f"{line}\n" for line in GOOD), encoding="utf-8")
    (tmp_path / "expected").write_text(
        "".join(f"{line}\n" for line in REFERENCES), encoding="utf-8"
    )
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "expected"), "-i"]
    command += [str(tmp_path / "measured"), "-m", "bleu", "chrf", "ter", "--confidence", "-w", "6"]
    command_output = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for measured, expected in zip(score(GOOD, BITEXT), command_output, strict=True):
        assert expected["name"].startswith(measured.metric)
        assert measured.score == pytest.approx(expected["score"], abs=1e-5)
        assert measured.mean == pytest.approx(expected["confidence_mean"], abs=1e-5)
        assert measured.margin == pytest.approx(expected["confidence_var"], abs=1e-5)
        assert measured.signature == expected["signature"]


def test_intervals_are_deterministic_and_the_signature_has_the_seed(few_samples: None) -> None:
    perfect, imperfect, *_ = sentence_scores(GOOD, REFERENCES)
    assert 0 < imperfect < perfect == pytest.approx(100.0)
    first, second = score(BAD, BITEXT), score(BAD, BITEXT)
    assert first == second
    assert all("bs:20|seed:12345" in each.signature for each in first)
    assert all(each.margin > 0 for each in first)


def test_identical_and_empty_translations_have_the_bounds_of_each_metric(few_samples: None) -> None:
    for each in score(REFERENCES, BITEXT):
        perfect = 0.0 if each.metric == "TER" else 100.0
        assert (each.score, each.mean) == pytest.approx((perfect, perfect))
        assert each.margin == pytest.approx(0.0)
    bleu, chrf, ter = score([""] * len(REFERENCES), BITEXT)
    assert (bleu.score, chrf.score, ter.score) == (0.0, 0.0, 100.0)


def test_corpus_with_tokenised_references_also_gets_tokenised_bleu(few_samples: None) -> None:
    tokenised = tuple(lower_cased_and_tokenised(REFERENCES, "en"))
    assert tokenised[0] == "a dog runs on the beach ."
    *_, last = score(GOOD, replace(BITEXT, tokenised_references=tokenised))
    assert last.metric == TOKENISED_BLEU
    assert "case:lc" in last.signature and "tok:none" in last.signature
    # Lower-casing is the only change to these sentences.
    assert last.score == pytest.approx(score(GOOD, BITEXT)[0].score, abs=8)


def test_tokenizer_is_that_of_the_target_language(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bleu_for("zh").tokenizer("你好。") == "你 好 。"
    # A tokenizer whose dependency is not installed.
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(UnknownTokenisation, match="cannot cut 'ja' into words"):
        bleu_for("ja")


def test_a_system_compared_with_itself_is_not_significant(few_samples: None) -> None:
    for each in compare(GOOD, GOOD, BITEXT):
        assert each.difference == 0
        assert each.bootstrap == each.randomisation == 1.0
        assert each.verdict == "not significant"


def test_large_difference_is_significant_in_either_order(few_samples: None) -> None:
    many = replace(BITEXT, references=REFERENCES * 10, sources=None)
    upwards = compare(BAD * 10, GOOD * 10, many)
    downwards = compare(GOOD * 10, BAD * 10, many)
    assert [each.verdict for each in upwards] == ["better"] * 3
    assert [each.verdict for each in downwards] == ["worse"] * 3
    for up, down in zip(upwards, downwards, strict=True):
        assert (up.baseline, up.system) == (down.system, down.baseline)
        assert up.bootstrap == pytest.approx(1 / 21) and up.randomisation == pytest.approx(1 / 21)
        assert "bs:20" in up.bootstrap_signature and "ar:20" in up.randomisation_signature


def test_one_better_sentence_of_many_may_be_chance(few_samples: None) -> None:
    many = replace(BITEXT, references=REFERENCES * 5, sources=None)
    system = GOOD * 5
    lucky = (*system[:-1], REFERENCES[-1])
    bleu = compare(system, lucky, many)[0]
    assert bleu.difference > 0
    assert bleu.verdict == "not significant"


def test_randomisation_of_large_test_sets_has_fewer_samples_in_its_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "LEAST_SAMPLES", 7)
    monkeypatch.setattr(comparison, "SWAPS", 13 * len(REFERENCES))
    found = compare(GOOD, BAD, BITEXT)
    assert "ar:13" in found[0].randomisation_signature
    assert "bs:13" in found[0].bootstrap_signature


def test_bad_translations_are_counted_by_defect() -> None:
    found = diagnose(BAD, BITEXT)
    counts = (found.sentences, found.empty, found.too_short, found.copied, found.loops)
    assert (*counts, found.exact, found.unknown) == (6, 1, 2, 1, 1, 1, 0)
    assert diagnose(["x" * 3 + " ⁇ "] * 6, BITEXT).unknown == 6
    assert diagnose([f"{text} {text} {text}" for text in REFERENCES], BITEXT).too_long == 6


def test_good_translations_have_no_defects() -> None:
    found = diagnose(GOOD, BITEXT)
    counts = (found.too_short, found.too_long, found.empty, found.loops, found.repetitions)
    assert (*counts, found.copied, found.unknown) == (0,) * 7
    assert found.exact == 3
    assert 0.9 < found.length_ratio <= 1.0


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("very very very good", True),
        ("very very good", False),
        ("on the beach on the beach on the beach", True),
        (". . . .", False),
        ("a , a , a ,", True),
        ("", False),
        ("one two three four five one two three four five one two three four five", False),
    ],
)
def test_loop_is_three_repetitions_in_succession(text: str, loop: bool) -> None:
    assert has_loop(text.split()) is loop


def test_loop_that_is_also_in_the_reference_is_not_counted() -> None:
    bitext = Bitext("x", "de", "en", ("ha ha ha !",), None)
    assert diagnose(["ha ha ha !"], bitext).loops == 0
    assert diagnose(["ha ha ha !"], replace(bitext, references=("ha !",))).loops == 1


def test_repetitions_and_copies() -> None:
    assert repeats([*"abcdxabcd"])
    assert not repeats([*"abcdxabc"])
    # Names that the reference keeps are not copied.
    assert not is_copied(["Tom"], ["Tom"], ["Tom"])
    assert is_copied(["Hallo"], ["Hello"], ["Hallo"])
    assert not is_copied(["."], ["x"], ["."])


def test_without_sources_copies_are_unknown_and_buckets_use_reference_lengths() -> None:
    found = diagnose(GOOD, replace(BITEXT, sources=None))
    assert found.copied is None
    assert sum(bucket.sentences for bucket in found.buckets) == 6


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.text(alphabet="ab .\u2028", max_size=60),
            st.text(alphabet="ab .", min_size=1, max_size=60).filter(str.strip),
            st.text(alphabet="ab .", max_size=60),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_sentence_is_in_one_bucket_and_one_bar(lines: list[tuple[str, str, str]]) -> None:
    hypotheses, references, sources = zip(*lines, strict=True)
    found = diagnose(hypotheses, Bitext("x", "de", "en", references, sources))
    assert sum(bucket.sentences for bucket in found.buckets) == len(lines)
    assert sum(bar.sentences for bar in found.ratios) == len(lines)
    for count in (found.empty, found.exact, found.loops, found.too_long, found.too_short):
        assert 0 <= count <= len(lines)


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
