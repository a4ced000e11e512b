"""Tests of importing models in Marian's own format."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import yaml
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.flat_yaml import read_flat
from models.importing.importing import import_model, read_model
from models.importing.marian_native import read_marian_native
from models.importing.model import Imported
from models.importing.npz import Npz
from models.importing.refusals import (
    ImportRefused,
    NotACheckpoint,
    UnknownLanguages,
    UnsupportedCheckpoint,
)
from models.reference.transformer import ReferenceTransformer, sinusoids, weight_shapes
from tests.support.checkpoints import LONGEST, sentences, train_spm, write_marian
from tests.support.ctranslate2_models import hypotheses
from tests.support.marian import (
    arrays_of,
    options_of,
    save_npz,
    write_ctranslate2,
    write_marian_npz,
    write_marianmt,
)

TEXTS = [*sentences("source", 8, seed=5), "der xyz hund"]
CASES: dict[str, dict[str, Any]] = {
    "one vocabulary": {},
    "two vocabularies, relu": {"separate": True, "activation_function": "relu"},
    "nothing tied": {"separate": True, "tied": False},
}


@dataclass(frozen=True, slots=True)
class Original:
    """A trained network, and what is needed to write it in the format of another program."""

    imported: Imported
    checkpoint: Path
    rows: dict[str, list[int]]
    """The rows of the names of each vocabulary, without pad."""

    @property
    def network(self) -> ReferenceTransformer:
        return self.imported.network


def original(checkpoint: Path, **options: Any) -> Original:
    """A trained network whose start token has a zero embedding, with Marian's positions."""
    write_marian(checkpoint, taught=True, **options)
    imported = read_model(checkpoint)
    config = replace(imported.network.config, positions="sinusoidal_tensor2tensor")
    weights = {name: array.copy() for name, array in imported.network.weights.items()}
    for side in ("source", "target"):
        weights[f"{side}_embedding.tokens.weight"][SPECIAL_IDS.bos] = 0
        weights[f"{side}_embedding.positions"] = sinusoids(LONGEST, config.width, config.positions)
    if config.tying != "none":
        weights["generator.weight"] = weights["target_embedding.tokens.weight"]
    rows = {}
    models = imported.source_model, imported.target_model
    for name, content in zip(("vocab.json", "target_vocab.json"), models, strict=True):
        if (checkpoint / name).exists():
            model = sentencepiece.SentencePieceProcessor(model_proto=content)
            names = json.loads((checkpoint / name).read_text(encoding="utf-8"))
            rows[name] = [model.piece_to_id(piece) for piece in names if piece != "<pad>"]
    network = ReferenceTransformer(config, weights)
    return Original(replace(imported, network=network), checkpoint, rows)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return original(tmp_path_factory.mktemp("plain") / "checkpoint")


@pytest.fixture(scope="module")
def written(plain: Original, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written") / "marian"
    return write_marian_npz(directory, plain.network, plain.checkpoint, plain.rows)


@pytest.mark.parametrize("name", CASES)
def test_one_network_in_three_formats_gives_the_same_translations(
    tmp_path: Path, name: str
) -> None:
    ours = original(tmp_path / "checkpoint", **CASES[name])
    marian = write_marian_npz(tmp_path / "marian", ours.network, ours.checkpoint, ours.rows)
    formats = {
        "marian": marian,
        "marianmt": write_marianmt(tmp_path / "hf", ours.network, ours.checkpoint, ours.rows),
        "ctranslate2": write_ctranslate2(tmp_path / "ct2", marian),
    }
    imported = {name: read_model(path) for name, path in formats.items()}
    libraries = [each.library for each in imported.values()]
    assert libraries == ["Marian", "Hugging Face transformers", "CTranslate2"]
    assert imported["marian"].network.config.tying == ours.network.config.tying
    for beam_size in (1, 4):
        expected = hypotheses(ours.imported, TEXTS, beam_size, LONGEST)
        assert len({tuple(pieces) for pieces, _ in expected}) > 5
        for each in imported.values():
            found = hypotheses(each, TEXTS, beam_size, LONGEST)
            assert [pieces for pieces, _ in found] == [pieces for pieces, _ in expected]
            scores = [score for _, score in expected]
            assert [score for _, score in found] == pytest.approx(scores, abs=1e-4)


def test_norms_before_sub_layers_give_the_translations_of_ctranslate2(
    plain: Original, tmp_path: Path
) -> None:
    config = replace(plain.network.config, norm="before")
    rng = np.random.default_rng(2)
    weights = dict(plain.network.weights)
    for name, shape in weight_shapes(config).items():
        if name not in weights:
            weights[name] = rng.normal(name.endswith("weight"), 0.2, shape).astype(np.float32)
    network = ReferenceTransformer(config, weights)
    marian = write_marian_npz(tmp_path / "marian", network, plain.checkpoint, plain.rows)
    imported = read_marian_native(marian)
    assert imported.network.config.norm == "before"
    of_ctranslate2 = read_model(write_ctranslate2(tmp_path / "ct2", marian))
    ours = replace(plain.imported, network=network)
    expected = hypotheses(ours, TEXTS, 4, LONGEST)
    for each in (imported, of_ctranslate2):
        found = hypotheses(each, TEXTS, 4, LONGEST)
        assert [pieces for pieces, _ in found] == [pieces for pieces, _ in expected]


@pytest.mark.parametrize("norm", ["before", "after"])
def test_decoders_of_ssru_are_read_from_floats(plain: Original, tmp_path: Path, norm: Any) -> None:
    config = replace(plain.network.config, norm=norm, decoder="ssru")
    rng = np.random.default_rng(2)
    weights = {
        name: plain.network.weights.get(name, rng.normal(0, 0.2, shape).astype(np.float32))
        for name, shape in weight_shapes(config).items()
    }
    network = ReferenceTransformer(config, weights)
    marian = write_marian_npz(tmp_path / "marian", network, plain.checkpoint, plain.rows)
    (rows,) = plain.rows.values()
    options = options_of(network, **{"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"})
    save_npz(marian / "model.npz", arrays_of(network, (rows, rows)), options)
    found = read_marian_native(marian).network
    assert (found.config.decoder, found.config.norm, found.config.norm_epsilon) == (
        "ssru",
        norm,
        1e-6,
    )
    for name, array in weights.items():
        if name.startswith(("encoder", "decoder")):
            np.testing.assert_array_equal(found.weights[name], array)


def test_bundle_is_proved_and_its_card_names_marian(written: Path, tmp_path: Path) -> None:
    (written / "decoder.yml").write_text(
        "relative-paths: true\nvocabs:\n  - /somewhere/opus.src.vocab.yml\n"
        "  - /somewhere/opus.src.vocab.yml\nbeam-size: 3\nnormalize: 0.6\nword-penalty: 0.5\n"
    )
    try:
        bundle, proof = import_model(
            written, tmp_path, sources=["de"], targets=["en"], precisions=["fp32"]
        )
    finally:
        (written / "decoder.yml").unlink()
    assert proof.differing == {"fp32": 0}
    assert (bundle.manifest.decoding.beam_size, bundle.manifest.decoding.length_penalty) == (3, 0.6)
    card = (bundle.path / "README.md").read_text(encoding="utf-8")
    assert "of Marian" in card and "word-penalty 0.5" in card


def test_release_of_opus_mt_is_read_from_its_archive(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "opus-2020-02-26.zip"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for file in written.iterdir():
            # Releases have no directory.
            archive.write(file, file.name)
        archive.writestr("README.md", "# opus-2020-02-26.zip\n\n* dataset: opus\n")
        archive.writestr("LICENSE", "\nAttribution 4.0 International\n\n====\n")
        archive.writestr("preprocess.sh", "#!/bin/bash\n")
    with pytest.raises(UnknownLanguages, match="--from"):
        import_model(path, tmp_path / "bundles", precisions=["fp32"])
    bundle, proof = import_model(
        path, tmp_path / "bundles", sources=["de"], targets=["en"], precisions=["fp32"]
    )
    assert bundle.path.name == "opus-2020-02-26" and proof.differing == {"fp32": 0}
    card = (bundle.path / "README.md").read_text(encoding="utf-8")
    assert "`Attribution 4.0 International`" in card and "`opus-2020-02-26.zip`" in card


def test_sentencepiece_vocabulary_is_read(plain: Original, tmp_path: Path) -> None:
    directory = tmp_path / "bergamot"
    directory.mkdir()
    texts = [*sentences("source", 100), *sentences("target", 100)]
    options = {"bos_id": -1, "eos_id": 0, "unk_id": 1}
    pieces = train_spm(texts, directory / "vocab.deen.spm", 80, **options)
    assert pieces[:2] == ["</s>", "<unk>"]
    rng = np.random.default_rng(1)
    size = len(pieces)
    config = replace(plain.network.config, source_vocabulary=size, target_vocabulary=size)
    weights = {
        name: rng.normal(0, 0.2, shape).astype(np.float32)
        for name, shape in weight_shapes(config).items()
    }
    network = ReferenceTransformer(config, weights)
    rows = list(range(size))
    save_npz(directory / "model.npz", arrays_of(network, (rows, rows)), options_of(network))
    imported = read_model(directory / "model.npz")
    assert imported.source_model == imported.target_model
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=imported.source_model)
    before = sentencepiece.SentencePieceProcessor(model_file=str(directory / "vocab.deen.spm"))
    table = imported.network.weights["target_embedding.tokens.weight"]
    for text in TEXTS:
        assert tokenizer.encode(text, out_type=str) == before.encode(text, out_type=str)
        expected = weights["target_embedding.tokens.weight"][before.encode(text)]
        np.testing.assert_array_equal(table[tokenizer.encode(text)], expected)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"type": "s2s"}, "has type 's2s'; 'transformer' can be imported"),
        ({"transformer-decoder-autoreg": "average-attention"}, "'average-attention'"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell 'gru'"),
        ({"transformer-rnn-projection": True}, "rnn-projection 'true'"),
        ({"transformer-ffn-activation": "gelu"}, "activation 'gelu'; relu and swish"),
        ({"transformer-train-position-embeddings": True}, "train-position-embeddings 'true'"),
        ({"transformer-postprocess": "dnan"}, r"operations \['', 'nan', ''\]"),
        ({"transformer-postprocess-emb": "nd"}, "postprocess-emb 'nd'"),
        ({"transformer-tied-layers": [1, 1]}, r"tied-layers \['1', '1'\]"),
        ({"transformer-decoder-dim-ffn": 8}, "decoder-dim-ffn 8 and transformer-dim-ffn 64"),
        ({"transformer-heads": 5}, "multiple of 5 heads"),
        ({"transformer-heads": "many"}, "transformer-heads 'many', which is not a number"),
        ({"right-left": True}, "right-left 'true'"),
        ({"enc-depth": 3}, "has no encoder_l3_self_Wq"),
        ({"dec-depth": 9999999}, "it has 9999999 layers"),
        ({"enc-depth": 1}, "what no supported network has: encoder_l2"),
        ({"dim-emb": 16}, r"Wemb has the shape .* implies \["),
        ({"dim-emb": 9999999999}, "which is not a number"),
    ],
)
def test_unsupported_options_are_refused_by_name(
    plain: Original, written: Path, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    directory = tmp_path / "changed"
    shutil.copytree(written, directory)
    arrays = arrays_of(plain.network, (plain.rows["vocab.json"],) * 2)
    save_npz(directory / "model.npz", arrays, options_of(plain.network, **changes))
    with pytest.raises((UnsupportedCheckpoint, NotACheckpoint), match=complaint):
        read_marian_native(directory)


def compressed(path: Path) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    np.savez_compressed(path, **arrays)


def misnamed(directory: Path) -> None:
    """Name an entry in Latin-1 that is marked as UTF-8."""
    path = directory / "model.npz"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("ää.npy", b"")
    path.write_bytes(path.read_bytes().replace("ää".encode(), b"\xe4\xe4\xe4\xe4"))


def adding(content: bytes) -> Callable[[Path], None]:
    def add(directory: Path) -> None:
        with zipfile.ZipFile(directory / "model.npz", "a") as archive:
            archive.writestr("more.npy", content)

    return add


VOCABULARY = "opus.src.vocab.yml"


def header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda d: (d / "source.spm").unlink(), r"has no source\.spm"),
        (lambda d: (d / VOCABULARY).unlink(), "has 0 vocabularies"),
        (lambda d: (d / VOCABULARY).write_text("a: 0\nb: 0\n"), "id of its own"),
        (lambda d: (d / VOCABULARY).write_text("a: 0\na: 1\n"), "has 'a' twice"),
        (lambda d: (d / VOCABULARY).write_text("a: 0\n"), "has no <unk>"),
        (lambda d: (d / VOCABULARY).write_text("- a\n"), "holds no mapping"),
        (lambda d: (d / VOCABULARY).write_text("a: &b {c: *b}"), "neither a text nor a list"),
        (lambda d: (d / VOCABULARY).write_text("[" * 100_000), "mapping|YAML"),
        (lambda d: (d / VOCABULARY).write_text("- " * 100_000), "mapping|YAML"),
        (lambda d: (d / VOCABULARY).write_bytes(b"a\xff: 0"), "cannot be read as YAML"),
        (lambda d: (d / "decoder.yml").write_text("vocabs: [../../a.yml]"), r"has no a\.yml"),
        (lambda d: (d / "decoder.yml").write_text("beam-size: many"), "its decoder.yml"),
        (lambda d: shutil.copy(d / "model.npz", d / "second.npz"), "has several models"),
        (lambda d: (d / "model.npz").write_bytes(b"PK"), "is a damaged archive"),
        (misnamed, "is a damaged archive"),
        (lambda d: compressed(d / "model.npz"), "is compressed, which Marian never does"),
        (adding(b"no"), r"more\.npy is not an array"),
        (adding(header((1 << 40, 1 << 20))), r"\[1099511627776, 1048576\] of float32, and 0"),
        (adding(header((1,), "|O") + b"x" * 8), r"has the shape \[1\] of object"),
        (adding(header((-1, -1)) + b"x" * 4), r"has the shape \[-1, -1\]"),
        (adding(header((True,)) + b"x" * 4), r"has the shape \[True\]"),
        (adding(header((0, 1 << 70))), r"has the shape \[0, 1180591620717411303424\]"),
        (adding(header((1,) * 65) + b"x" * 4), r"has the shape \[1, 1,"),
        (adding(header((5,), "|S0")), r"has the shape \[5\] of \|S0"),
        (lambda d: (d / "decoder.yml").write_text("beam-size: 99999"), "than or equal to 64"),
        (lambda d: (d / "decoder.yml").write_text("normalize: nan"), "finite number"),
        (adding(header((2,)) + b"x" * 8), "what no supported network has: more"),
    ],
)
def test_missing_damaged_and_hostile_files_are_named(
    written: Path, tmp_path: Path, break_it: Callable[[Path], object], complaint: str
) -> None:
    directory = tmp_path / "broken"
    shutil.copytree(written, directory)
    break_it(directory)
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint), match=complaint):
        read_marian_native(directory)


def test_quantised_models_are_refused_by_name(
    plain: Original, written: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "quantised"
    shutil.copytree(written, directory)
    arrays = arrays_of(plain.network, (plain.rows["vocab.json"],) * 2)
    arrays["Wemb"] = arrays["Wemb"].astype(np.int8)  # type: ignore[assignment]
    save_npz(directory / "model.npz", arrays, options_of(plain.network))
    with pytest.raises(UnsupportedCheckpoint, match="Wemb holds int8; floats can be imported"):
        read_marian_native(directory)


def test_vocabulary_keeps_pieces_that_yaml_would_read_as_values(tmp_path: Path) -> None:
    pieces = ["no", "~", "1_000", "<<", "=", '"', "\\", "0x1F", ".5", "\u2028", "👍", "'", "- a"]
    path = tmp_path / "vocab.yml"
    path.write_text(
        yaml.safe_dump({piece: i for i, piece in enumerate(pieces)}, allow_unicode=True),
        encoding="utf-8",
    )
    assert read_flat(path) == {piece: str(i) for i, piece in enumerate(pieces)}


@given(place=st.integers(0, 3000), value=st.binary(min_size=1, max_size=4))
def test_changed_bytes_raise_nothing_but_refusals(
    written: Path, tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    content = bytearray((written / "model.npz").read_bytes())
    # The change is near the end, where the archive's directory is, or near the beginning.
    place = place // 2 if place % 2 else len(content) - 1 - place // 2
    content[place : place + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "changed.npz"
    path.write_bytes(bytes(content))
    try:
        file = Npz(path)
        for name in file:
            file.read(name)
    except ImportRefused:
        pass
