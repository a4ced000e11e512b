from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from models.bundle.bundle import Bundle
from models.bundle.manifest import DecodingDefaults
from tests.support.networks import random_network, write_bundle
from tests.training.evaluation.texts import BAD, GOOD, REFERENCES, SOURCES
from training.cli import main
from training.evaluation import bundles as module
from training.evaluation.bundles import NothingToTranslate, directions_among, facts_of, labels

pytestmark = pytest.mark.usefixtures("few_samples")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(random_network(), tmp_path_factory.mktemp("bundles") / "one", ("int8",))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for language, lines in (("de", SOURCES), ("en", REFERENCES)):
        path = tmp_path / "data" / f"captions.{language}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Output paths of translate_file, which is replaced by a stub."""
    outputs: list[Path] = []

    def translate_file(
        bundle: Path, source: str, target: str, input: Path, output: Path, **_: object
    ) -> None:
        outputs.append(output)
        output.write_text("".join(f"{line}\n" for line in GOOD), encoding="utf-8")

    monkeypatch.setattr(module, "translate_file", translate_file)
    return outputs


def test_report_translates_once_and_caches_translations(
    bundle: Bundle,
    data: Path,
    done: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "out" / "page.html"
    arguments = ["report", str(bundle.path), "--test", "captions", "--data", str(data)]
    arguments += ["-o", str(page)]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert len(done) == 1
    assert done[0].parent == tmp_path / "out" / "page.translations" / "random-1"
    assert main([*arguments, "--beam-size", "2"]) == 0
    assert len(done) == 2
    printed = capsys.readouterr().out
    assert "captions, de-en: 6 sentences" in printed and "bs:20|seed:12345" in printed
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert [section["title"] for section in document["sections"]] == ["captions, de-en"]
    (data / "captions.de").write_text("Anders.\n" * 6, encoding="utf-8")
    assert main(arguments) == 0
    assert len(done) == 3
    # Tuning changes the decoding defaults and keeps the version.
    tuned = bundle.manifest.model_copy(update={"decoding": DecodingDefaults(length_penalty=0.5)})
    arguments[1] = str(shutil.copytree(bundle.path, tmp_path / "tuned"))
    (tmp_path / "tuned" / "manifest.json").write_text(tuned.to_json(), encoding="utf-8")
    assert main(arguments) == 0
    assert len(done) == 4


def test_report_has_the_directions_of_each_test_set(
    bundle: Bundle, data: Path, done: list[Path], tmp_path: Path
) -> None:
    further = bundle.manifest.directions[0].model_copy(update={"source": "fr"})
    directions = (*bundle.manifest.directions, further)
    both = bundle.manifest.model_copy(update={"directions": directions})
    copy = shutil.copytree(bundle.path, tmp_path / "both")
    (copy / "manifest.json").write_text(both.to_json(), encoding="utf-8")
    page = tmp_path / "page.html"
    arguments = ["report", str(copy), "--test", "captions", "--data", str(data), "-o", str(page)]
    assert main(arguments) == 0
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert [section["title"] for section in document["sections"]] == ["captions, de-en"]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--to", "fr"], "*-fr"),
        (["--from", "klingon!"], "'klingon!'"),
        (["--test", "elsewhere"], "'elsewhere'"),
    ],
)
def test_invalid_reports_are_refused_before_translation(
    bundle: Bundle,
    data: Path,
    done: list[Path],
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    named: str,
) -> None:
    arguments = ["report", str(bundle.path), "--test", "captions", "--data", str(data)]
    assert main([*arguments, *more]) == 2
    assert named in capsys.readouterr().err
    assert not done


def test_bundle_labels_are_the_shortest_distinct_ones(bundle: Bundle, tmp_path: Path) -> None:
    assert labels([bundle]) == ["random"]
    with pytest.raises(NothingToTranslate, match="named twice"):
        labels([bundle, bundle])
    link = tmp_path / "other"
    link.symlink_to(bundle.path)
    assert labels([bundle, Bundle.open(link)]) == [str(bundle.path), str(link)]
    assert directions_among([bundle], None, "EN") == [("de", "en")]
    facts = dict(facts_of("x", bundle).facts)
    assert facts["translates"] == "German to English"
    assert facts["layers"] == "2 in the encoder, 2 in the decoder"


def test_files_of_any_system_are_compared(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lines in (("good", GOOD), ("bad", BAD)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = ["compare", str(tmp_path / "good"), str(tmp_path / "bad")]
    arguments += ["--reference", str(data / "captions.en"), "--source", str(data / "captions.de")]
    arguments += ["-o", str(tmp_path / "page.html")]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "bad beside good" in printed and "bootstrap p = " in printed
    assert "Better by good than by bad" in (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "bad").write_text("One.\n", encoding="utf-8")
    assert main(arguments) == 2
    assert "bad ends after line 1" in capsys.readouterr().err
