from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.evaluation.texts import BAD, BITEXT, GOOD, REFERENCES
from training.evaluation import comparison
from training.evaluation.comparison import compare
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
