from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.bundle.bundle import MODEL_CARD, TOKENIZER, Bundle, graph_file
from models.bundle.manifest import GRAPHS, InvalidBundle, Manifest, Precision
from models.bundle.tokenizer import train_tokenizer
from tests.models.tiny import DIGITS, MANIFEST, tiny_files

Document = dict[str, Any]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tiny_files(tmp_path_factory.mktemp("originals"))


@pytest.fixture
def bundle(tmp_path: Path, originals: dict[str, Path]) -> Bundle:
    return Bundle.write(tmp_path / "bundles" / "tiny", MANIFEST, originals)


def edit_manifest(bundle: Bundle, **change: object) -> None:
    path = bundle.path / "manifest.json"
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | change), encoding="utf-8")


def listing(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in directory.rglob("*")
        if file.is_file()
    }


def test_a_bundle_holds_its_files_and_its_manifest_and_reads_back(
    bundle: Bundle, originals: dict[str, Path]
) -> None:
    (bundle.path / ".DS_Store").write_bytes(b"")
    assert Bundle.open(bundle.path) == bundle
    assert listing(bundle.path).keys() == {*originals, "manifest.json", ".DS_Store"}
    assert bundle.manifest.files.keys() == originals.keys()
    tokenizers = bundle.tokenizers()
    assert tokenizers.source is tokenizers.target
    assert tokenizers.target.decode(tokenizers.target.encode(DIGITS[0])) == DIGITS[0]
    with pytest.raises(InvalidBundle, match="not int8"):
        bundle.graph("step", "int8")
    # Its permissions follow the umask.
    beside = bundle.path.parent / "beside"
    beside.mkdir()
    assert bundle.path.stat().st_mode == beside.stat().st_mode


# --- verification of a bundle that is opened


def reverse(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


def link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("step.fp32.onnx", reverse),
        ("weights.fp32.bin", lambda path: os.truncate(path, 3)),
        ("step.fp32.onnx", link),
        # Neither is listed in the manifest.
        ("extra.onnx", lambda path: path.write_bytes(b"from elsewhere")),
        ("weights.int8.bin", lambda path: path.write_bytes(b"from elsewhere")),
        *(
            ("manifest.json", lambda path, content=content: path.write_bytes(content))
            for content in (
                *(b"{", b"", b"[" * 100_000, b"[]", b"\xff\xfe{}", b"{}", b'{"schema": 3}'),
                b'{"schema": 1, "source": "de", "target": "en"}',
            )
        ),
    ],
)
def test_changed_unlisted_and_malformed_files_are_named(
    bundle: Bundle, name: str, change: Callable[[Path], object]
) -> None:
    change(bundle.path / name)
    with pytest.raises(InvalidBundle, match="manifest" if name.endswith("json") else name):
        Bundle.open(bundle.path)


@pytest.mark.parametrize("name", ["nowhere", "file", "."])
def test_a_path_without_a_manifest_is_not_a_bundle(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidBundle):
        Bundle.open(tmp_path / name)


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "attention.fp32.onnx", "encoder.fp32.onnx", "step.fp32.onnx"),
        *("tokenizer.model", "weights.fp32.bin"),
    ],
)
def test_every_file_is_required(
    bundle: Bundle, tmp_path: Path, originals: dict[str, Path], name: str
) -> None:
    (bundle.path / name).unlink()
    with pytest.raises(InvalidBundle, match=f"lacks {name}"):
        Bundle.open(bundle.path)
    files = json.loads(bundle.manifest.to_json())["files"]
    del files[name]
    edit_manifest(bundle, files=files)
    with pytest.raises(InvalidBundle, match=f"does not list {name}"):
        Bundle.open(bundle.path)
    rest = {other: origin for other, origin in originals.items() if other != name}
    with pytest.raises(InvalidBundle, match=f"does not list {name}"):
        Bundle.write(tmp_path / "incomplete", MANIFEST, rest)
    assert not (tmp_path / "incomplete").exists()


@pytest.mark.parametrize(("precisions", "complete"), [(("int8", "fp16"), True), (("fp16",), False)])
def test_graphs_in_fp16_may_share_the_weights_of_int8_only(
    tmp_path: Path, precisions: tuple[Precision, ...], complete: bool
) -> None:
    files = tiny_files(tmp_path / "files")
    shared = {name for name in files if name in (TOKENIZER, MODEL_CARD)}
    names = [graph_file(graph, each) for graph in GRAPHS for each in ("int8", "fp16")]
    listed = {name: files[name] for name in shared}
    listed |= dict.fromkeys([*names, "weights.int8.bin"], files["weights.fp32.bin"])
    manifest = MANIFEST.model_copy(update={"precisions": precisions, "examples": ()})
    if complete:
        bundle = Bundle.write(tmp_path / "tiny", manifest, listed)
        assert bundle.graph("step", "fp16").is_file()
        return
    with pytest.raises(InvalidBundle, match=r"does not list weights\.fp16\.bin"):
        Bundle.write(tmp_path / "tiny", manifest, listed)


@pytest.mark.parametrize("name", ["../step.fp32.onnx", "/step.fp32.onnx", "sub/x", "..", ""])
def test_file_name_with_a_path_is_refused(
    bundle: Bundle, tmp_path: Path, originals: dict[str, Path], name: str
) -> None:
    files = json.loads(bundle.manifest.to_json())["files"]
    edit_manifest(bundle, files=files | {name: files["README.md"]})
    with pytest.raises(InvalidBundle, match="not the plain name of a file"):
        Bundle.open(bundle.path)

    with pytest.raises(InvalidBundle, match="not the plain name of a file"):
        Bundle.write(tmp_path / "other", MANIFEST, originals | {name: originals["README.md"]})
    assert not (tmp_path / "other").exists()


# --- the tokenizer fits the manifest


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("dimensions", {"vocabulary_size": 20}, "14 pieces, the network 20"),
        ("special_ids", {"eos": 2, "bos": 3}, "SpecialIds"),
        (None, {}, "not a SentencePiece model"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused(
    tmp_path: Path,
    originals: dict[str, Path],
    part: str | None,
    change: dict[str, int],
    message: str,
) -> None:
    manifest, files = MANIFEST, originals
    if part is None:
        (tmp_path / "junk").write_bytes(b"junk")
        files = originals | {"tokenizer.model": tmp_path / "junk"}
    else:
        changed = getattr(MANIFEST, part).model_copy(update=change)
        manifest = MANIFEST.model_copy(update={part: changed})
    with pytest.raises(InvalidBundle, match=message):
        Bundle.write(tmp_path / "tiny", manifest, files).tokenizers()


# --- a vocabulary per side


@pytest.fixture
def apart(tmp_path: Path, originals: dict[str, Path]) -> tuple[Manifest, dict[str, Path]]:
    """A bundle with a tokenizer per side; the source has one piece more."""
    files = dict(originals)
    files["target.model"] = files.pop("tokenizer.model")
    files["source.model"] = tmp_path / "source.model"
    train_tokenizer(
        [*DIGITS, "ten"], files["source.model"], vocabulary_size=15, kind="word", threads=1
    )
    sizes = MANIFEST.dimensions.model_copy(update={"source_vocabulary_size": 15})
    return MANIFEST.model_copy(update={"dimensions": sizes}), files


def test_each_side_may_have_its_own_tokenizer(
    tmp_path: Path, apart: tuple[Manifest, dict[str, Path]]
) -> None:
    bundle = Bundle.write(tmp_path / "apart", *apart)
    tokenizers = bundle.tokenizers()
    assert (tokenizers.source.vocabulary_size, tokenizers.target.vocabulary_size) == (15, 14)
    assert tokenizers.source.decode(tokenizers.source.encode("ten")) == "ten"
    assert bundle.manifest.dimensions.source_vocabulary == 15


def test_tokenizers_that_do_not_fit_the_sides_are_refused(
    tmp_path: Path, apart: tuple[Manifest, dict[str, Path]], originals: dict[str, Path]
) -> None:
    manifest, files = apart
    for name in ("source.model", "target.model"):
        rest = {other: path for other, path in files.items() if other != name}
        with pytest.raises(InvalidBundle, match=f"does not list {name}"):
            Bundle.write(tmp_path / "apart", manifest, rest)
    both = files | {"tokenizer.model": originals["tokenizer.model"]}
    with pytest.raises(InvalidBundle, match=r"tokenizer\.model, .* source\.model"):
        Bundle.write(tmp_path / "apart", manifest, both)
    with pytest.raises(InvalidBundle, match=r"source\.model has 15 pieces, the network 14"):
        Bundle.write(tmp_path / "apart", MANIFEST, files).tokenizers()
    with pytest.raises(InvalidBundle, match=r"tokenizer\.model has 14 pieces, the network 15"):
        Bundle.write(tmp_path / "shared", manifest, originals).tokenizers()


# --- publishing


def test_writing_replaces_an_older_bundle(bundle: Bundle, originals: dict[str, Path]) -> None:
    newer = Bundle.write(bundle.path, MANIFEST.model_copy(update={"version": "2"}), originals)
    assert newer.manifest.version == "2"
    assert Bundle.open(bundle.path) == newer
    assert [entry.name for entry in bundle.path.parent.iterdir()] == ["tiny"]


def test_writing_over_a_directory_that_is_no_bundle_is_refused(
    tmp_path: Path, originals: dict[str, Path]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_bytes(b"dear")
    with pytest.raises(InvalidBundle, match="not a bundle; it is not replaced"):
        Bundle.write(tmp_path / "home", MANIFEST, originals)
    assert listing(tmp_path) == {"home/letter": b"dear"}


def fail_to_copy(_origin: Path, copy: Path) -> None:
    copy.write_bytes(b"half of")
    raise OSError("no space left on device")


def corrupt_the_copy(_origin: Path, copy: Path) -> None:
    copy.write_bytes(b"something else")


@pytest.mark.parametrize("copy", [fail_to_copy, corrupt_the_copy])
def test_a_failing_write_leaves_nothing_behind_and_keeps_the_old_bundle(
    bundle: Bundle, originals: dict[str, Path], monkeypatch: pytest.MonkeyPatch, copy: Any
) -> None:
    before = listing(bundle.path.parent)
    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises((OSError, InvalidBundle)):
        Bundle.write(bundle.path, MANIFEST, originals)
    assert listing(bundle.path.parent) == before


def test_old_bundle_is_restored_if_the_rename_fails(
    bundle: Bundle, originals: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse_once(origin: Path, target: Path) -> Path:
        if target == bundle.path:
            monkeypatch.undo()
            raise PermissionError("not today")
        return rename(origin, target)

    monkeypatch.setattr(Path, "rename", refuse_once)
    with pytest.raises(PermissionError):
        Bundle.write(bundle.path, MANIFEST.model_copy(update={"version": "2"}), originals)
    assert Bundle.open(bundle.path) == bundle
    assert [entry.name for entry in bundle.path.parent.iterdir()] == ["tiny"]


def test_concurrent_reader_never_sees_an_incomplete_bundle(
    tmp_path: Path, originals: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    copyfile = shutil.copyfile

    def look_and_copy(origin: Path, copy: Path) -> Path:
        seen.extend(entry.name for entry in tmp_path.iterdir())
        return copyfile(origin, copy)

    monkeypatch.setattr(shutil, "copyfile", look_and_copy)
    Bundle.write(tmp_path / "tiny", MANIFEST, originals)
    assert seen
    assert all(name.startswith(".") for name in seen)
