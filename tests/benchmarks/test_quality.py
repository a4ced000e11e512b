from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import quality
from models.bundle.bundle import Bundle
from models.bundle.manifest import Score
from tests.support.networks import random_network, write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return write_bundle(random_network(), tmp_path / "random", ("int8",))


def a_score(value: float, **changes: str) -> Score:
    facts = {"metric": "BLEU", "test_set": "news/test", "precision": "int8"} | changes
    return Score.model_validate(
        {**facts, "value": value, "beam_size": 4, "signature": "nrefs:1|bs:1000"}
    )


def test_recording_replaces_old_scores_and_keeps_other_fields(bundle: Bundle) -> None:
    quality.record(bundle, [a_score(20.0), a_score(50.0, metric="chrF")])
    quality.record(Bundle.open(bundle.path), [a_score(21.5), a_score(30.0, test_set="web/test")])
    manifest = Bundle.open(bundle.path).manifest
    assert [(s.metric, s.test_set, s.value) for s in manifest.provenance.scores] == [
        ("chrF", "news/test", 50.0),
        ("BLEU", "news/test", 21.5),
        ("BLEU", "web/test", 30.0),
    ]
    card = (bundle.path / "README.md").read_text(encoding="utf-8")
    assert "| news/test | BLEU | 21.50 | int8 | 4 | `nrefs:1\\|bs:1000` |" in card
    assert not list(bundle.path.parent.glob(".random.*"))


def test_groups_of_a_test_set_are_scored_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_bundle(random_network(), tmp_path / "random", ("int8",))
    (direction,) = bundle.manifest.directions
    lines = ["w1 w2 w3 w4 w5", "w6 w7 w8 w9 w0", "w1 w1 w2 w2 w3"]
    columns = {"meta": ["mail", "law", "mail"], direction.source: lines, direction.target: lines}
    for suffix, column in columns.items():
        (tmp_path / f"some.{suffix}").write_text("\n".join(column) + "\n", encoding="utf-8")
    monkeypatch.setattr(quality, "translate", lambda *_: [lines[0], "no", lines[2]])
    asking = quality.Quality("", tmp_path, "int8", None, ("some",), None, None, None)
    asking.scores_of(bundle)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in printed if line.endswith("sentences")] == [
        ["law", "BLEU", "0.00,"],
        ["mail", "BLEU", "100.00,"],
    ]


def test_missing_test_set_error_is_one_sentence(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = quality.Quality("http://unused", tmp_path, "int8", None, ("news",), None, None, None)
    with pytest.raises(quality.Refusal, match="'news'"):
        asking.scores_of(bundle)
    assert quality.main(["missing", "--bundles", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("quality: ")
