"""Tests of importing packages of Argos Translate: a CTranslate2 model and its languages."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from models.importing.argos import is_argos, read_argos
from models.importing.importing import import_model, read_model
from models.importing.refusals import NotACheckpoint, UnknownLanguages, UnsupportedCheckpoint
from tests.support.checkpoints import sentences
from tests.support.ctranslate2_models import hypotheses, saved

METADATA = {
    "package_version": "1.9",
    "argos_version": "1.9.0",
    "from_code": "de",
    "from_name": "German",
    "to_code": "en",
    "to_name": "English",
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a package unpacks to."""
    directory = tmp_path_factory.mktemp("argos") / "translate-de_en-1_9"
    directory.mkdir()
    saved(directory / "model", pre_norm=True, quantization="int8")
    (directory / "model" / "sentencepiece.model").rename(directory / "sentencepiece.model")
    (directory / "metadata.json").write_text(json.dumps(METADATA), encoding="utf-8")
    (directory / "README.md").write_text("# German - English\n", encoding="utf-8")
    return directory


def packed(unpacked: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(unpacked.rglob("*")):
            archive.write(file, file.relative_to(unpacked.parent))
    return path


def test_package_and_its_directory_become_the_same_bundle(unpacked: Path, tmp_path: Path) -> None:
    package = packed(unpacked, tmp_path / "de_en.argosmodel")
    assert is_argos(unpacked) and not is_argos(unpacked / "model")
    bundle, _ = import_model(package, tmp_path / "bundles", precisions=["fp32"])
    assert bundle.path.name == "de_en"
    (direction,) = bundle.manifest.directions
    assert (direction.source, direction.target, direction.source_eos) == ("de", "en", False)
    assert (bundle.manifest.decoding.beam_size, bundle.manifest.decoding.length_penalty) == (4, 0.2)
    assert "Argos Translate" in (bundle.path / "README.md").read_text(encoding="utf-8")
    texts = sentences("source", 3)
    assert hypotheses(read_model(package), texts, 4) == hypotheses(read_argos(unpacked), texts, 4)


def test_target_prefix_is_forced(unpacked: Path, tmp_path: Path) -> None:
    def changed(prefix: str) -> Path:
        path = tmp_path / "translate"
        path.mkdir(exist_ok=True)
        for name in ("model", "sentencepiece.model"):
            if not (path / name).exists():
                (path / name).symlink_to(unpacked / name)
        document = json.dumps({**METADATA, "target_prefix": prefix})
        (path / "metadata.json").write_text(document, encoding="utf-8")
        return path

    imported = read_argos(changed("▁the"))
    (direction,) = imported.languages.directions([], [])
    assert len(direction.target_prefix) == 1
    with pytest.raises(UnsupportedCheckpoint, match="target_prefix '__xx__' is no token"):
        read_argos(changed("__xx__"))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("[]", "holds no JSON object"),
        ('{"type": "sbd"}', "of type 'sbd'"),
        ("{}", "None"),
    ],
)
def test_foreign_packages_are_refused_by_name(
    tmp_path: Path, document: str, complaint: str
) -> None:
    (tmp_path / "metadata.json").write_text(document, encoding="utf-8")
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint, UnknownLanguages), match=complaint):
        read_argos(tmp_path)


def test_packages_with_moses_tokenisation_are_refused_by_name(
    unpacked: Path, tmp_path: Path
) -> None:
    path = tmp_path / "package"
    path.mkdir()
    (path / "model").symlink_to(unpacked / "model")
    (path / "metadata.json").symlink_to(unpacked / "metadata.json")
    (path / "bpe.model").write_text("#version: 0.2\n")
    with pytest.raises(UnsupportedCheckpoint, match=r"subword-nmt \(bpe\.model\)"):
        read_argos(path)
