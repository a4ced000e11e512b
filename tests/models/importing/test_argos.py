"""Tests of importing packages of Argos Translate: zip archives around a CTranslate2 model."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from models.importing.argos import is_argos, read_argos
from models.importing.importing import import_model
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


def packed(unpacked: Path, path: Path, **options: int) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for file in sorted(unpacked.rglob("*")):
            archive.write(file, file.relative_to(unpacked.parent))
    return path


def test_package_and_its_directory_become_the_same_bundle(unpacked: Path, tmp_path: Path) -> None:
    package = packed(unpacked, tmp_path / "de_en.argosmodel", compression=zipfile.ZIP_DEFLATED)
    assert is_argos(package) and is_argos(unpacked) and not is_argos(unpacked / "model")
    bundle, _ = import_model(package, tmp_path / "bundles", precisions=["fp32"])
    (direction,) = bundle.manifest.directions
    assert (direction.source, direction.target, direction.source_eos) == ("de", "en", False)
    assert (bundle.manifest.decoding.beam_size, bundle.manifest.decoding.length_penalty) == (4, 0.2)
    assert "Argos Translate" in (bundle.path / "README.md").read_text(encoding="utf-8")
    texts = sentences("source", 3)
    assert hypotheses(read_argos(package), texts, 4) == hypotheses(read_argos(unpacked), texts, 4)


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


def hostile(path: Path, write: Callable[[zipfile.ZipFile], object]) -> Path:
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        write(archive)
    return path


def link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("p/metadata.json")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda a: a.writestr("p/../../metadata.json", "{}"), "climbs out of it"),
        (lambda a: a.writestr("/p/metadata.json", "{}"), "climbs out of it"),
        (lambda a: a.writestr("p\\..\\..\\metadata.json", "{}"), "climbs out of it"),
        (lambda a: a.writestr("C:/p/metadata.json", "{}"), "climbs out of it"),
        (link, r"has the link 'p/metadata\.json'"),
        (lambda a: a.writestr("p/metadata.json", " " * (1 << 24)), "unpacks .* to 16777216 bytes"),
        (lambda a: [a.writestr(f"p/{i}", "") for i in range(10_001)], "has 10001 entries"),
        (lambda a: a.writestr("p/README.md", ""), r"has no metadata\.json"),
        (lambda a: a.writestr("p/metadata.json", "[]"), "holds no JSON object"),
        (lambda a: a.writestr("p/metadata.json", '{"type": "sbd"}'), "of type 'sbd'"),
    ],
)
def test_hostile_and_foreign_archives_are_refused_by_name(
    tmp_path: Path, write: Callable[[zipfile.ZipFile], object], complaint: str
) -> None:
    path = hostile(tmp_path / "hostile.argosmodel", write)
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint), match=complaint):
        read_argos(path)
    assert [file.name for file in tmp_path.iterdir()] == ["hostile.argosmodel"]


def test_packages_without_languages_are_refused(tmp_path: Path) -> None:
    path = hostile(tmp_path / "a.argosmodel", lambda a: a.writestr("p/metadata.json", "{}"))
    with pytest.raises(UnknownLanguages, match="None"):
        read_argos(path)


def test_damaged_archives_are_refused(unpacked: Path, tmp_path: Path) -> None:
    path = packed(unpacked, tmp_path / "a.argosmodel", compression=zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(NotACheckpoint, match="damaged archive"):
        read_argos(path)
    changed = bytearray(content)
    middle = len(content) // 2
    changed[middle : middle + 64] = bytes(64)
    path.write_bytes(bytes(changed))
    with pytest.raises(NotACheckpoint, match="damaged"):
        read_argos(path)
    with pytest.raises(NotACheckpoint, match="does not exist"):
        read_argos(tmp_path / "absent.argosmodel")


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
